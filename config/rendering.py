"""Templates of config/ -> files in the home, whole or not at all."""

from pathlib import Path

from jinja2 import StrictUndefined, Template

from config.files import write_whole


def render(template: Path, target: Path, values: dict[str, object]) -> None:
    """Write a template with its values to a file, unless it says the same already."""
    text = Template(template.read_text(), keep_trailing_newline=True, undefined=StrictUndefined).render(values)
    if not target.exists() or target.read_text() != text:
        write_whole(target, text)  # another process may be starting
