"""Redrive: silver.quarantine -> landing's verdicts again, by the rules as they are now, each record once.

A record that passes now goes where landing would put it: silver, late or duplicates. It counts as arriving again at the
end of what its topic has landed, so it is late where any event that arrives there would be, and no follower of silver
is handed a row behind its watermark (docs/decisions/0014). What still breaks a rule stays where it is.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from delta.tables import DeltaTable
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named, topics
from config.failpoints import failpoint
from config.settings import Settings
from expectations.quarantine import plan as plans
from expectations.quarantine.plan import RedrivePlan
from lake import ledger
from lake.batch import Batch
from lake.ledger import LANDING, REDRIVE
from lake.locks import single_writer
from lake.tables import ORIGIN, append_once, arrow_schema, read
from streaming.landing.classify import DUPLICATES, INPUT_COLUMNS, LATE, QUARANTINED, SILVER, classify
from streaming.landing.job import parse_and_validate, typed
from streaming.landing.parse import contracts
from streaming.runner import RECORDS_WORTH_COMPILING

TABLE = "silver.quarantine"
ASIDE = {"silver.late": LATE, "silver.duplicates": DUPLICATES}
STRETCH = ["landed_epoch", "landed_batch", "from_offset", "to_offset"]


@dataclass(frozen=True)
class Outcome:
    """What a redrive came to: how many records went where, and how many are refused still."""

    moved: dict[str, int]
    refused: int


def redrive(spark: SparkSession, settings: Settings, generation: int) -> Outcome:
    """Let every quarantined record go through landing again; finish first what was broken off."""
    moved: Counter[str] = Counter()
    # Landing's own lock: as long as it is held, nothing lands, and the end of what has landed stays where it is.
    with single_writer(settings, [LANDING]):
        batch = Batch(read(spark, TABLE, settings, generation), REDRIVE, 0, 1, generation, settings)
        if broken_off := plans.unfinished(settings, generation):
            moved += _carry_out(broken_off, batch)
            batch = replace(batch, rows=read(spark, TABLE, settings, generation))
        for rows in _passing(batch):
            moved += _carry_out(plans.draw_up(settings, generation, rows), batch)
    return Outcome(dict(moved), batch.location(TABLE).table().count())


def _passing(batch: Batch) -> Iterator[pa.Table]:
    """Judge what is in quarantine again, and give what passes now, with its verdict, no more at a time than fits."""
    entries = [row for row in ledger.entries(batch.settings, [LANDING]) if row["generation"] == batch.generation]
    if not entries:
        return
    _compile_if_worth_it(batch)
    most, origin = batch.settings.streaming.records_on_driver, F.struct(*ORIGIN)
    passing = _judged(batch.rows, entries).filter(F.size("rules") == 0).orderBy(*ORIGIN)
    rows = passing.limit(most).toArrow()
    while len(rows):
        verdicts = classify(rows.select(list(INPUT_COLUMNS)), batch)
        for column in ("verdict", "duplicate_of"):
            rows = rows.append_column(column, verdicts[column])
        last = rows.select(list(ORIGIN)).slice(len(rows) - 1).to_pylist()[0]
        # An id that another event has is told only now.
        returning = rows.filter(pc.not_equal(rows["verdict"], QUARANTINED))
        if len(returning):
            yield returning
        beyond = F.struct(*(F.lit(value).cast(table_named(TABLE).columns[name].type) for name, value in last.items()))
        rows = passing.filter(origin > beyond).limit(most).toArrow()


def _compile_if_worth_it(batch: Batch) -> None:
    """Let Spark generate code for the parsing only if there is much to parse: for few records that costs more."""
    few = batch.location(TABLE).table().count() <= RECORDS_WORTH_COMPILING
    batch.rows.sparkSession.conf.set("spark.sql.codegen.wholeStage", not few)
    batch.rows.sparkSession.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")


def _judged(quarantined: DataFrame, entries: ledger.Entry) -> DataFrame:
    """Judge records as landing does, of whole batches only, as if each arrived at the end of what has landed."""
    spark = quarantined.sparkSession
    stretches = spark.createDataFrame(
        [
            tuple(row[c] for c in ("topic", "partition", "epoch", "batch", "from_offset", "to_offset"))
            for row in entries
        ],
        "topic string, partition int, landed_epoch int, landed_batch bigint, from_offset bigint, to_offset bigint",
    )
    inside = F.expr("offset >= from_offset and offset < to_offset")
    headers = F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers")
    records = quarantined.select(*ORIGIN, "key", "value", headers, F.col("arrival_time").alias("timestamp"))
    ends = spark.createDataFrame(_ends(entries), "topic string, end timestamp, allowance bigint")
    late_by = "unix_millis(end) - unix_millis(event_time)"
    # Held first: a filter on what was found would be pushed into the parsing, and all of it planned over and over.
    return (
        parse_and_validate(records)
        .localCheckpoint()
        .join(F.broadcast(stretches), ["topic", "partition"])
        .filter(inside)
        .join(F.broadcast(ends), "topic")
        .withColumn("late_by_ms", F.expr(f"case when {late_by} > allowance then {late_by} end"))
        .drop("end", "allowance", "headers")
    )


def _ends(entries: ledger.Entry) -> list[tuple[str, datetime, int | None]]:
    """Give, for each topic, the latest arrival that has landed, and how late an event may be, in milliseconds."""
    ends: dict[str, datetime] = {}
    for row in entries:
        ends[row["topic"]] = max(row["max_arrival_time"], ends.get(row["topic"], row["max_arrival_time"]))
    allowed = {name: topics()[name].lateness.allowance for name in ends}
    return [(name, end, _milliseconds(allowed[name])) for name, end in ends.items()]


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds() * 1000)


def _carry_out(plan: RedrivePlan, batch: Batch) -> Counter[str]:
    """Do what the plan says, in steps of which each can be repeated: append, take out of quarantine, record."""
    for name, rows in _parts(plan.rows).items():
        append_once(batch.location(name), rows.select(list(table_named(name).stored)), plan.application, 0)
        failpoint(f"redrive: after {name}")
    _take_out(plan.rows.select(list(ORIGIN)), batch)
    failpoint(f"redrive: after {TABLE}")
    _record(plan, batch)
    plans.done(batch.settings, batch.generation)
    return Counter(plan.rows["verdict"].to_pylist())


def _parts(rows: pa.Table) -> dict[str, pa.Table]:
    """Split records by where they go; users before others, as who follows those looks up what was true at the time."""
    parts = {}
    lands = pc.equal(rows["verdict"], SILVER)
    for contract in sorted(contracts(), key=lambda contract: contract.table.versioned_by is None):
        here = rows.filter(pc.and_(lands, pc.equal(rows["topic"], contract.topic.name)))
        if len(here):
            parts[contract.table.name] = typed(here, contract)
    parts |= {name: rows.filter(pc.equal(rows["verdict"], verdict)) for name, verdict in ASIDE.items()}
    return {name: part for name, part in parts.items() if len(part)}


def _take_out(origins: pa.Table, batch: Batch) -> None:
    spark = batch.rows.sparkSession
    same = " and ".join(f"t.{name} = s.{name}" for name in ORIGIN)
    # In one chunk: of a table in several, pyspark 4.1 loses the rows after the first chunk of each slice.
    taken = spark.createDataFrame(origins.combine_chunks()).alias("s")
    # By Spark: a MERGE by deltalake leaves texts in a form by which pyarrow cannot filter.
    DeltaTable.forPath(spark, str(batch.location(TABLE))).alias("t").merge(taken, same).whenMatchedDelete().execute()


def _record(plan: RedrivePlan, batch: Batch) -> None:
    """Write into the ledger what left quarantine and where it went, by the batches of landing that it had come with."""
    known = [row for row in ledger.entries(batch.settings, [REDRIVE]) if row["generation"] == batch.generation]
    number = max((row["batch"] for row in known), default=-1)
    entry: ledger.Entry = []
    for landed in sorted({(row["landed_epoch"], row["landed_batch"]) for row in plan.rows.select(STRETCH).to_pylist()}):
        number += 1
        same = pc.and_(*(pc.equal(plan.rows[name], value) for name, value in zip(STRETCH, landed, strict=False)))
        rows = plan.rows.filter(same)
        ends = {(row["topic"], row["partition"]): row for row in rows.select([*ORIGIN, *STRETCH]).to_pylist()}
        for row in ledger.count(rows, replace(batch, id=number)):
            stretch = ends[row["topic"], row["partition"]]
            entry.append({**row, **{name: stretch[name] for name in ("from_offset", "to_offset")}})
    now = datetime.now(UTC)
    found = pa.Table.from_pylist(
        [{**row, "recorded_at": now} for row in entry], arrow_schema(table_named(ledger.TABLE))
    )
    append_once(ledger.folder(batch.settings, REDRIVE, batch.generation), found, plan.application, 0)
    failpoint(f"redrive: after {ledger.TABLE}")
