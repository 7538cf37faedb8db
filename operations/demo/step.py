"""A step of the demo is a value: its title, its part, and what it runs; the files in steps/ define them."""

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

from operations.demo import steps as folder
from operations.demo.context import Context


@dataclass(frozen=True)
class Step:
    """One step: it prints what it found, and returns whether this is what was expected."""

    title: str
    part: str
    """The group of steps that `lakehouse demo --part` reruns together, on what the parts before it left."""

    run: Callable[[Context], bool]

    pages: Mapping[str, str] = field(default_factory=dict, hash=False)
    """What it writes for a browser: title -> path in the home."""

    try_next: tuple[str, ...] = ()
    """Commands of `lakehouse` that show more of it."""


@cache
def steps() -> tuple[Step, ...]:
    """Find every step by its file, in the order of file names."""
    names = sorted(module.name for module in pkgutil.iter_modules(folder.__path__))
    return tuple(importlib.import_module(f"{folder.__name__}.{name}").step for name in names)


def parts(of: tuple[Step, ...]) -> list[str]:
    """List the parts of steps, in order."""
    return list(dict.fromkeys(step.part for step in of))
