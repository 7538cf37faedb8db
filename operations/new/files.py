"""Skeletons -> files of the project: all of a change, or none of it."""

import importlib.util
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from config.errors import LakehouseError

SKELETONS = Path(__file__).parent / "skeletons"
FORMATTERS = {"ruff": ["format", "--quiet"], "sqlfmt": ["--quiet"]}
Files = dict[str, str]
"""The text of every file that a change needs, by its path from the project's root."""


def render(skeleton: str, name: str, values: Mapping[str, object]) -> Files:
    """Render every file of a skeleton; NAME in a path becomes the name."""
    folder = SKELETONS / skeleton
    jinja = Environment(
        loader=FileSystemLoader(folder),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        trim_blocks=True,
        autoescape=False,  # noqa: S701 - no HTML
        # dbt's models and Python's f-strings have braces of their own.
        variable_start_string="<<",
        variable_end_string=">>",
        block_start_string="<%",
        block_end_string="%>",
    )
    found = {}
    for file in sorted(folder.rglob("*.jinja")):
        path = file.relative_to(folder).as_posix()
        target = path.removesuffix(".jinja").replace("NAME", name)
        text = jinja.get_template(path).render(values, name=name)
        found[target] = _formatted(target, text)
    return found


def _formatted(name: str, text: str) -> str:
    """Format code as `make format` does, where the formatter is installed: line breaks depend on the names' lengths."""
    formatter = {".py": "ruff", ".sql": "sqlfmt" if name.startswith("models/") else None}.get(Path(name).suffix)
    if formatter is None or importlib.util.find_spec(formatter) is None:
        return text
    command = [sys.executable, "-m", formatter, *FORMATTERS[formatter], "-"]
    return subprocess.run(command, input=text, text=True, stdout=subprocess.PIPE, check=True, cwd=SKELETONS).stdout


def refuse_existing(files: Files, root: Path) -> None:
    """Refuse a change if one of its files exists."""
    if existing := [file for file in files if (root / file).exists()]:
        raise LakehouseError(f"{', '.join(existing)} exists already. Nothing was written.", "Choose another name.")


def write(files: Files, root: Path) -> list[Path]:
    """Write all files of a change and the dbt files that follow from them; if that fails, none remains."""
    refuse_existing(files, root)
    written: list[Path] = []
    try:
        for name, text in files.items():
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            written.append(file)
            file.write_text(text)
        return [*written, *sync_dbt(root)]
    except (OSError, LakehouseError) as error:
        for file in written:
            file.unlink(missing_ok=True)
        if isinstance(error, OSError):
            raise LakehouseError(f"{error.filename}: {error.strerror}. Nothing was written.") from None
        raise


def sync_dbt(root: Path) -> list[Path]:
    """Write the dbt files that follow from the declared tables and from the models; return those that changed."""
    from operations.dbt.sync import sync

    return sync(root)
