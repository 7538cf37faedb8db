"""The batch layer: complete, equal to the oracle with nothing late, however it came about."""

from collections import Counter
from itertools import pairwise
from typing import Any

from gold import records_of
from handmade import Lake
from oracle import Oracle, from_rows

from batch import publications
from batch.run import frames, run
from config.declarations import tables
from local.simulator.plan import Plan

TABLES = [name for name in tables() if name.startswith(("silver.", "gold.")) and name != "silver.late"]


def plan(seed: int, events: int = 2_000, days: int = 1) -> Plan:
    return Plan(seed=seed, events=events, late=0.05, duplicates=0.03, malformed=0.01, days=days)


def recompute(lake: Lake, *, full: bool = False) -> Any:
    return run(lake.spark, lake.settings, full=full, watch=lambda _: None)


def differences(lake: Lake, records: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Compare what is published with the oracle: by table, the rows that are missing and those too many."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    served = publications.served(lake.settings)
    assert served
    found = {}
    for name, frame in frames(lake.spark, lake.settings, served.tables).items():
        wanted = oracle.table(name, late_counts=False)
        columns = [column for column in wanted.column_names if column in frame.columns]
        asked = Counter(map(repr, wanted.select(columns).to_pylist()))
        there = Counter(map(repr, frame.select(*columns).toArrow().cast(wanted.select(columns).schema).to_pylist()))
        if asked != there:
            found[name] = (sorted((asked - there).elements())[:2], sorted((there - asked).elements())[:2])
    return found


def test_it_equals_the_oracle_with_nothing_late(lake: Lake) -> None:
    records = records_of(plan(21))
    lake.land(records)
    result = recompute(lake)
    assert result.publication, result.audit.failures
    assert set(result.publication.tables) == set(TABLES)
    assert differences(lake, records) == {}


def test_in_steps_it_equals_the_oracle_and_computes_only_what_changed(lake: Lake) -> None:
    records = records_of(plan(22, 2_000, days=4))
    cuts = [0, *(len(records) * part // 8 for part in (4, 6, 7)), len(records)]
    for low, high in pairwise(cuts):
        lake.land(records[low:high])
        result = recompute(lake)
        assert result.publication, result.audit.failures
        assert differences(lake, records[:high]) == {}
    days = len(result.publication.tables["gold.views_per_minute"])
    assert not result.full
    assert 0 < result.changed["gold.views_per_minute"] < days
    again = recompute(lake)
    assert again.changed == {}
    assert differences(lake, records) == {}
