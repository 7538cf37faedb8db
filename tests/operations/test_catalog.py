"""The catalog's names: they are told also where the batch layer was left out."""

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec

import pytest

from config.settings import Settings
from operations.catalog import queries


def without_batch(find: Callable[[str], ModuleSpec | None]) -> Callable[[str], ModuleSpec | None]:
    """Look for modules as where there is no package `batch`."""

    def found(name: str) -> ModuleSpec | None:
        if name.startswith("batch."):
            raise ModuleNotFoundError("No module named 'batch'")
        return None if name == "batch" else find(name)

    return found


def test_without_the_batch_layer_nothing_is_merged(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", without_batch(importlib.util.find_spec))
    names = queries(fresh_home)
    assert "gold.sessions" in names
    assert not [name for name in names if name.startswith(("merged.", "batch."))]


# feature: batch
def test_with_it_every_answer_is_merged(fresh_home: Settings) -> None:
    names = queries(fresh_home)
    gold = {name.partition(".")[2] for name in names if name.startswith("gold.")}
    assert gold == {name.partition(".")[2] for name in names if name.startswith("merged.")}


# end of feature: batch
