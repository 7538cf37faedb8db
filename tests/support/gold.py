"""Gold in tests: simulated records landed batch by batch, every job run on them, and the oracle's answer beside."""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import deltalake
from handmade import Lake
from oracle import Oracle, from_rows

from config.declarations import tables
from config.settings import Settings
from lake.batch_log import closed_until
from lake.location import table_location
from local.simulator.plan import Plan
from local.simulator.shop import shard_records
from streaming.job import Job, in_stages, jobs
from streaming.runner import Runner

ANSWERS = ("silver.clicks_enriched", *(name for name in tables() if name.startswith("gold.")))
# Their rows come out only when time has passed them.
WAITING = {"gold.sessions", "gold.order_payments"}


def records_of(plan: Plan) -> list[tuple[Any, ...]]:
    """Give a plan's records as the log has them, in the order of their arrival; all changes of users come first."""
    records = [record for shard in range(plan.shards) for record in shard_records(plan, shard)]
    records.sort(key=lambda record: (record.topic != "users", *record[2:4]))
    offsets: Counter[tuple[str, int]] = Counter()
    found = []
    for r in records:
        arrival = datetime.fromtimestamp(r.arrival_ms / 1000, UTC)
        found.append((r.topic, r.partition, offsets[r.topic, r.partition], r.key, r.value, None, arrival))
        offsets[r.topic, r.partition] += 1
    return found


def catch_up(lake: Lake, names: Sequence[str] = ()) -> None:
    """Run every job that follows tables, or those named, until it has caught up."""
    chosen = [job for job in followers() if not names or job.name in names]
    Runner(lake.settings, lake.spark).run(chosen, until_caught_up=True)


def followers() -> list[Job]:
    """Give every job that follows tables, in the order in which data flows."""
    return [job for stage in in_stages([job for job in jobs().values() if job.reads]) for job in stage]


def configured(lake: Lake, **values: Any) -> None:
    """Change settings of streaming."""
    streaming = lake.settings.streaming.model_copy(update=values)
    lake.settings = lake.settings.model_copy(update={"streaming": streaming})


def differences(
    lake: Lake,
    records: list[tuple[Any, ...]],
    names: Sequence[str] = ANSWERS,
    strategy: Literal["leave", "count", "merge"] = "leave",
    *,
    all_closed: bool = False,
) -> dict[str, tuple[list[str], list[str]]]:
    """Compare every table with the oracle: by table, the rows that are missing and those that should not be there."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    found = {}
    for name in names:
        until = closed_until(lake.settings, name.partition(".")[2]) if name in WAITING and not all_closed else None
        wanted = oracle.table(name, closed_until=until, strategy=strategy)
        columns = [column for column in wanted.column_names if column in tables()[name].columns]
        there = rows_of(lake.settings, name, columns)
        asked = Counter(map(repr, wanted.select(columns).to_pylist()))
        missing, extra = asked - there, there - asked
        if missing or extra:
            found[name] = (sorted(missing.elements())[:3], sorted(extra.elements())[:3])
    return found


def rows_of(settings: Settings, name: str, columns: list[str]) -> Counter[str]:
    """Read a table as rows that can be compared."""
    table = deltalake.DeltaTable(str(table_location(settings, tables()[name].name)))
    rows = table.to_pyarrow_dataset().to_table(columns=columns, use_threads=False)
    return Counter(map(repr, rows.to_pylist()))
