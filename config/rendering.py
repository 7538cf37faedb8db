"""Render templates of config/ to files in the home, atomically."""

from pathlib import Path

from jinja2 import StrictUndefined, Template

from config.files import write_whole


def render(template: Path, target: Path, values: dict[str, object], *, private: bool = False) -> None:
    """Render a template to a file, unless the file already has that content; only the owner can read a private one."""
    text = Template(template.read_text(), keep_trailing_newline=True, undefined=StrictUndefined).render(values)
    if not target.exists() or target.read_text() != text:
        write_whole(target, text, private=private)  # another process may be reading it
