"""What the batch layer publishes, compared with the oracle of the same records."""

from collections import Counter
from typing import Any

from handmade import Lake
from oracle import Oracle, from_rows

from batch import publications
from batch.run import frames, run


def recompute(lake: Lake, *, full: bool = False) -> Any:
    """Run the batch layer."""
    return run(lake.spark, lake.settings, full=full, on_step=lambda _: None)


def published_differences(lake: Lake, records: list[tuple[Any, ...]]) -> dict[str, Any]:
    """Compare what is published with the oracle: by table, the rows that are missing and those too many."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    served = publications.served_publication(lake.settings)
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
