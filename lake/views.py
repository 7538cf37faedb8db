"""Views: every name that can be asked for in SQL, gathered from the packages that have tables."""

import importlib
import importlib.util

from config.declarations import tables
from config.settings import Settings

PACKAGES = ("streaming", "batch")


def views(settings: Settings) -> dict[str, str]:
    """Gather the queries behind all names, so that leaving out a feature is deleting its files."""
    found: dict[str, str] = {}
    for package in PACKAGES:
        if importlib.util.find_spec(package) and importlib.util.find_spec(f"{package}.views"):
            found |= importlib.import_module(f"{package}.views").views(settings)
    return found


def described(name: str) -> str:
    """Say what a view shows; one of the batch layer or the merge shows what the table of that name does."""
    layer, _, table = name.partition(".")
    of = {each.name.partition(".")[2]: each.description for each in tables().values() if each.layer != "ops"}
    if name in tables():
        return tables()[name].description
    how = {"batch": "As the batch layer has it", "merged": "Batch before the fence, stream after it"}
    return f"{how.get(layer, layer)}: {of.get(table, '')}"
