"""Gold in tests: land simulated records batch by batch, run every job, and compare with the oracle."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any, Literal

import deltalake
from generated import generated, landed_topics
from handmade import Lake
from oracle import Oracle, from_rows
from oracle.answers import waits

from config.declarations import tables
from config.settings import Settings
from lake.batch_log import closed_until
from lake.generations import live
from lake.location import table_location
from local.simulator.plan import Plan
from local.simulator.shop import shard_records, topics_of
from streaming.job import Job, in_stages, jobs
from streaming.runner import Runner

ANSWERS = ("silver.clicks_enriched", *(name for name in tables() if name.startswith("gold.")))
# Their rows are written only after the watermark has passed them.
WAITING = {name for name in ANSWERS if waits(name)}


def records_of(plan: Plan) -> list[tuple[Any, ...]]:
    """Return a plan's records as in the log, in the order of arrival; all changes of users come first.

    Topics that the simulator does not know get generated events, a fifth of the plan's each.
    """
    records = [record for shard in range(plan.shards) for record in shard_records(plan, shard)]
    records.sort(key=lambda record: (record.topic != "users", *record[2:4]))
    sent = [(r.topic, r.partition, r.key, r.value, datetime.fromtimestamp(r.arrival_ms / 1000, UTC)) for r in records]
    others = [topic for name, topic in landed_topics().items() if name not in topics_of(plan)]
    for topic in others:
        sent += generated(topic, plan.start, plan.length, plan.events // 5, plan.seed)
    if others:
        sent.sort(key=lambda record: (record[0] != "users", record[4]))
    return numbered(sent)


def numbered(sent: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Give records (topic, partition, key, value, arrival) their offsets, in the order in which they were sent."""
    offsets: Counter[tuple[str, int]] = Counter()
    found = []
    for topic, partition, key, value, arrival in sent:
        found.append((topic, partition, offsets[topic, partition], key, value, None, arrival))
        offsets[topic, partition] += 1
    return found


def catch_up(lake: Lake, names: Sequence[str] = (), *, from_first: bool = True) -> None:
    """Run every job that reads tables, or the named ones, until it has caught up; as a stream of all rows."""
    chosen = [job for job in followers() if not names or job.name in names]
    Runner(lake.settings, lake.spark, from_first=from_first).run(chosen, until_caught_up=True)


def followers() -> list[Job]:
    """Return every job that reads tables, in data-flow order."""
    return [job for stage in in_stages([job for job in jobs().values() if job.reads]) for job in stage]


def configured(lake: Lake, **values: Any) -> None:
    """Change settings in `streaming`."""
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
    """Compare every table with the oracle: by table, the missing rows and the extra rows."""
    oracle = Oracle(from_rows([(*record[:5], record[6]) for record in records]))
    found = {}
    for name in names:
        job, served = name.partition(".")[2], live(lake.settings)[name]
        until = closed_until(lake.settings, job, served) if name in WAITING and not all_closed else None
        wanted = oracle.table(name, closed_until=until, strategy=strategy)
        columns = [column for column in wanted.column_names if column in tables()[name].stored]
        there = rows_of(lake.settings, name, columns)
        asked = Counter(map(repr, wanted.select(columns).to_pylist()))
        missing, extra = asked - there, there - asked
        if missing or extra:
            found[name] = (sorted(missing.elements())[:3], sorted(extra.elements())[:3])
    return found


def rows_of(settings: Settings, name: str, columns: list[str]) -> Counter[str]:
    """Read a table as it is served, as comparable rows."""
    table = deltalake.DeltaTable(str(table_location(settings, name, live(settings)[name])))
    rows = table.to_pyarrow_dataset().to_table(columns=columns, use_threads=False)
    return Counter(map(repr, rows.to_pylist()))
