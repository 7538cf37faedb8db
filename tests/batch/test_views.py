"""Names of the batch layer in the catalog."""

import pytest

from config.settings import Settings
from lake.catalog import queries


@pytest.mark.parametrize("layer", ["batch", "gold_generations"])
def test_every_gold_table_has_what_dbt_merges_also_before_it_is_written(fresh_home: Settings, layer: str) -> None:
    names = queries(fresh_home)
    gold = {name.partition(".")[2] for name in names if name.startswith("gold.")}
    assert gold == {name.partition(".")[2] for name in names if name.startswith(f"{layer}.")}
