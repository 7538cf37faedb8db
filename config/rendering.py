"""Templates of config/ -> files in the home, whole or not at all."""

import os
from pathlib import Path

from jinja2 import StrictUndefined, Template


def render(template: Path, target: Path, values: dict[str, object]) -> None:
    """Write a template with its values to a file, unless it says the same already."""
    text = Template(template.read_text(), keep_trailing_newline=True, undefined=StrictUndefined).render(values)
    if not target.exists() or target.read_text() != text:
        # Another process may be starting: it must find the whole file, old or new.
        draft = target.with_name(f".{target.name}.{os.getpid()}")
        draft.write_text(text)
        draft.replace(target)
