"""A commit of many files: a job reads it whole, so that no row falls behind the watermark of its first part."""

from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake.transaction import AddAction, RemoveAction
from gold import catch_up, rows_of
from handmade import NOON, Lake, Log, click

from lake.location import table_location
from lake.tables import create_missing

ENRICHED, VIEWS = "silver.clicks_enriched", "gold.views_per_minute"
FILES = 2_002
"""Delta would read them in three parts: the second part moves the watermark, and the third falls behind it."""


def test_a_commit_of_more_files_than_delta_reads_at_once_is_one_micro_batch(lake: Lake, log: Log) -> None:
    log.send(click())
    lake.land(log.records)
    catch_up(lake, ["clicks_enriched"])
    (first,) = table_location(lake.settings, ENRICHED).table().to_pyarrow_table().to_pylist()
    create_missing([VIEWS], lake.settings)
    # The newest events come first in the commit, as after a backlog of several days.
    times = [NOON + timedelta(days=2)] * (FILES - 2) + [NOON] * 2
    in_one_commit(lake, [first | {"event_time": time, "event_date": first["event_date"]} for time in times])
    catch_up(lake, ["views_per_minute"])
    assert sum(rows_of(lake.settings, VIEWS, ["views"]).values()) == 2
    assert counted(lake) == FILES + 1


def in_one_commit(lake: Lake, rows: list[dict[str, object]]) -> None:
    """Append rows to the enriched clicks in one commit, each in its own file."""
    location = table_location(lake.settings, ENRICHED)
    table = location.table()
    schema = table.to_pyarrow_dataset().schema
    day = str(rows[0]["event_date"])
    folder = lake.settings.home / "warehouse" / "silver" / "clicks_enriched" / "g1" / f"event_date={day}"
    adds: list[AddAction | RemoveAction] = []
    for number, row in enumerate(rows):
        file = folder / f"{number:05}.parquet"
        pq.write_table(pa.Table.from_pylist([row], schema).drop_columns(["event_date"]), file)
        name = f"event_date={day}/{file.name}"
        adds.append(AddAction(name, file.stat().st_size, {"event_date": day}, 0, True, '{"numRecords": 1}'))
    table.create_write_transaction(adds, "append", table.schema(), ["event_date"])


def counted(lake: Lake) -> int:
    rows = table_location(lake.settings, VIEWS).table().to_pyarrow_table(columns=["views"])
    return sum(rows["views"].to_pylist())
