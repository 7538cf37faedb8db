"""Redrive: silver.quarantine -> silver, silver.late or silver.duplicates, by the current rules, each record once.

A record that passes the current rules goes to the table that landing would choose. Its arrival time counts as the
latest one that its topic has landed, so it is late if a new event would be, and no job that reads silver gets a row
behind its watermark (docs/decisions/0014). A record that still breaks a rule stays in quarantine.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named, topics
from config.failpoints import failpoint
from config.settings import Settings
from expectations.quarantine import plan as plans
from expectations.quarantine.plan import RedrivePlan
from lake import ledger
from lake.batch import Batch
from lake.deletion import delete_records
from lake.ledger import LANDING, REDRIVE
from lake.locks import single_writer
from lake.tables import ORIGIN, append_once, arrow_schema, read
from streaming.landing.classify import DUPLICATES, INPUT_COLUMNS, LATE, QUARANTINED, SILVER, classify
from streaming.landing.contract import contracts
from streaming.landing.job import classify_records, parse_and_validate
from streaming.landing.write import ARCHIVE, typed
from streaming.processing import RECORDS_WORTH_COMPILING
from streaming.set_aside import active, lift, mark

TABLE = "silver.quarantine"
SIDE_TABLES = {"silver.late": LATE, "silver.duplicates": DUPLICATES}
LANDED_BATCH = ["landed_epoch", "landed_batch", "from_offset", "to_offset"]


@dataclass(frozen=True)
class RedriveResult:
    """The number of records moved, by outcome, and the number that stay in quarantine."""

    moved: dict[str, int]
    refused: int


def redrive(spark: SparkSession, settings: Settings, generation: int) -> RedriveResult:
    """Redrive every quarantined record; finish an interrupted redrive first."""
    moved: Counter[str] = Counter()
    # Landing's lock: while it is held nothing lands, and the latest arrival time does not change.
    with single_writer(settings, [LANDING]):
        batch = Batch(read(spark, TABLE, settings, generation), REDRIVE, 0, 1, generation, settings)
        if interrupted := plans.unfinished(settings, generation):
            moved += _execute(interrupted, batch)
            batch = replace(batch, rows=read(spark, TABLE, settings, generation))
        _lift_repaired(batch)
        for rows in _passing(batch):
            moved += _execute(plans.draw_up(settings, generation, rows), batch)
    return RedriveResult(dict(moved), batch.location(TABLE).table().count())


def _passing(batch: Batch) -> Iterator[pa.Table]:
    """Validate and classify quarantined records again; yield those that pass, in chunks that fit in memory."""
    entries = [row for row in ledger.entries(batch.settings, [LANDING]) if row["generation"] == batch.generation]
    if not entries:
        return
    _set_codegen(batch)
    chunk, origin = batch.settings.streaming.records_on_driver, F.struct(*ORIGIN)
    passing = _validated(batch.rows, entries, batch.settings).filter(F.size("rules") == 0).orderBy(*ORIGIN)
    rows = passing.limit(chunk).toArrow()
    while len(rows):
        classified = classify(rows.select(list(INPUT_COLUMNS)), batch)
        for column in ("outcome", "duplicate_of"):
            rows = rows.append_column(column, classified[column])
        last = rows.select(list(ORIGIN)).slice(len(rows) - 1).to_pylist()[0]
        # A reused event id is detected only by the classification.
        returning = _without_content(rows.filter(pc.not_equal(rows["outcome"], QUARANTINED)))
        if len(returning):
            yield returning
        types = {name: table_named(TABLE).columns[name].type for name in ORIGIN}
        last_origin = F.struct(*(F.lit(value).cast(types[name]) for name, value in last.items()))
        rows = passing.filter(origin > last_origin).limit(chunk).toArrow()


def _without_content(rows: pa.Table) -> pa.Table:
    """Remove keys and values from the rows, which are stored in a plan: only silver.late has them."""
    late = pc.equal(rows["outcome"], LATE)
    for name in ("key", "value"):
        column = pc.if_else(late, rows[name], pa.scalar(None, rows[name].type))
        rows = rows.set_column(rows.column_names.index(name), name, column)
    return rows


def _set_codegen(batch: Batch) -> None:
    """Let Spark compile the parsing only for many records: for few, compiling costs more than it saves."""
    few = batch.location(TABLE).table().count() <= RECORDS_WORTH_COMPILING
    batch.rows.sparkSession.conf.set("spark.sql.codegen.wholeStage", not few)
    batch.rows.sparkSession.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN" if few else "FALLBACK")


def _lift_repaired(batch: Batch) -> None:
    """Lift the mark of records that were set aside and that the code can process now; the others stay."""
    for each in active(batch.settings):
        rows = batch.rows.filter(each.condition)
        if len(rows.take(1)) and _passes(replace(batch, rows=parse_and_validate(_as_received(rows, batch.settings)))):
            lift(batch.settings, [each.origin])


def _passes(batch: Batch) -> bool:
    try:
        classify_records(batch)
    except Exception:  # the error for which the record was set aside, or another one
        return False
    return True


def _as_received(quarantined: DataFrame, settings: Settings) -> DataFrame:
    """Return quarantined records with the columns of the archive; their keys and values are in the archive alone."""
    spark = quarantined.sparkSession
    headers = F.lit(None).cast("array<struct<key:string,value:binary>>").alias("headers")
    # The day is a partition of the archive, of which few have broken records.
    day = F.to_date("arrival_time").alias("arrival_date")
    archive = read(spark, ARCHIVE, settings).select(*ORIGIN, "arrival_date", "key", "value")
    origins = F.broadcast(quarantined.select(*ORIGIN, day, "arrival_time"))
    return archive.join(origins, [*ORIGIN, "arrival_date"]).select(*ORIGIN, "key", "value", headers, "arrival_time")


def _validated(quarantined: DataFrame, entries: ledger.Entry, settings: Settings) -> DataFrame:
    """Validate records of complete batches as landing does, with the latest landed arrival time as their own."""
    spark = quarantined.sparkSession
    landed = spark.createDataFrame(
        [
            tuple(row[c] for c in ("topic", "partition", "epoch", "batch", "from_offset", "to_offset"))
            for row in entries
        ],
        "topic string, partition int, landed_epoch int, landed_batch bigint, from_offset bigint, to_offset bigint",
    )
    in_batch = F.expr("offset >= from_offset and offset < to_offset")
    ends = spark.createDataFrame(_ends(entries), "topic string, end timestamp, allowance bigint")
    late_by = "unix_millis(end) - unix_millis(event_time)"
    # Checkpoint first: Spark would push later filters into the parsing and plan all of it again.
    return (
        parse_and_validate(mark(_as_received(quarantined, settings), settings))
        .localCheckpoint()
        .join(F.broadcast(landed), ["topic", "partition"])
        .filter(in_batch)
        .join(F.broadcast(ends), "topic")
        .withColumn("late_by_ms", F.expr(f"case when {late_by} > allowance then {late_by} end"))
        .drop("end", "allowance", "headers")
    )


def _ends(entries: ledger.Entry) -> list[tuple[str, datetime, int | None]]:
    """Return for each topic the latest landed arrival time, and the allowed lateness in milliseconds."""
    ends: dict[str, datetime] = {}
    for row in (row for row in entries if row["max_arrival_time"]):
        ends[row["topic"]] = max(row["max_arrival_time"], ends.get(row["topic"], row["max_arrival_time"]))
    allowed = {name: topics()[name].lateness.allowance for name in ends}
    return [(name, end, _milliseconds(allowed[name])) for name, end in ends.items()]


def _milliseconds(duration: timedelta | None) -> int | None:
    return None if duration is None else int(duration.total_seconds() * 1000)


def _execute(plan: RedrivePlan, batch: Batch) -> Counter[str]:
    """Execute a plan in repeatable steps: append to the tables, delete from quarantine, record in the ledger."""
    for name, rows in _parts(plan.rows).items():
        append_once(batch.location(name), rows.select(list(table_named(name).stored)), plan.txn_app_id, 0)
        failpoint(f"redrive: after {name}")
    delete_records(batch, TABLE, plan.rows)
    failpoint(f"redrive: after {TABLE}")
    _record(plan, batch)
    plans.done(batch.settings, batch.generation)
    return Counter(plan.rows["outcome"].to_pylist())


def _parts(rows: pa.Table) -> dict[str, pa.Table]:
    """Split records by table; versioned tables come first, as jobs that read the other tables look up versions."""
    parts = {}
    to_silver = pc.equal(rows["outcome"], SILVER)
    for contract in sorted(contracts(), key=lambda contract: contract.table.versioned_by is None):
        of_topic = rows.filter(pc.and_(to_silver, pc.equal(rows["topic"], contract.topic.name)))
        if len(of_topic):
            parts[contract.table.name] = typed(of_topic, contract)
    parts |= {name: rows.filter(pc.equal(rows["outcome"], outcome)) for name, outcome in SIDE_TABLES.items()}
    return {name: part for name, part in parts.items() if len(part)}


def _record(plan: RedrivePlan, batch: Batch) -> None:
    """Record in the ledger the records that left quarantine and their outcomes, by the landing batch they came from."""
    known = [row for row in ledger.entries(batch.settings, [REDRIVE]) if row["generation"] == batch.generation]
    number = max((row["batch"] for row in known), default=-1)
    entry: ledger.Entry = []
    for landed in sorted(set(zip(*(plan.rows[name].to_pylist() for name in LANDED_BATCH[:2]), strict=True))):
        number += 1
        same = pc.and_(
            *(pc.equal(plan.rows[name], value) for name, value in zip(LANDED_BATCH[:2], landed, strict=True))
        )
        rows = plan.rows.filter(same)
        ranges = {(row["topic"], row["partition"]): row for row in rows.select([*ORIGIN, *LANDED_BATCH]).to_pylist()}
        for row in ledger.count(rows, replace(batch, id=number)):
            landed_range = ranges[row["topic"], row["partition"]]
            entry.append({**row, **{name: landed_range[name] for name in ("from_offset", "to_offset")}})
    now = datetime.now(UTC)
    rows = pa.Table.from_pylist([{**row, "recorded_at": now} for row in entry], arrow_schema(table_named(ledger.TABLE)))
    append_once(ledger.folder(batch.settings, REDRIVE, batch.generation), rows, plan.txn_app_id, 0)
    failpoint(f"redrive: after {ledger.TABLE}")
