"""Landing by reference: served silver tables + silver.late -> the silver tables of a replay, without parsing the log.

Landing the same records again with the same code gives each of them the outcome that it has, except that a replay sets
no event aside as late: the first copy of a late event goes to silver, further copies to silver.duplicates. So rows are
copied, and only the values in silver.late are parsed. Each table gets one commit; the ledger is written last, by
counting what was written.

What is copied is fixed at the start: one version of each table, and the end of each partition in the ledger, which is
read first. Landing writes the ledger last, so these versions have every record before the ends; of a batch that is not
complete yet, no row is taken. A killed replay reads the same rows again, and skips the tables that have their commit.

Rows are copied in Arrow, in chunks, without Spark (docs/decisions/0036).
"""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import SparkSession

from config.declarations import landed_tables, table_named
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings
from lake import ledger
from lake.batch import Batch
from lake.generations import serving
from lake.ledger import LANDING, Ends
from lake.location import Location, table_location
from lake.tables import append_once, create_missing
from replay.landing_again import reasons
from replay.reused_ledger import counted
from streaming.checkpoint import job_folder
from streaming.job import job_named
from streaming.landed_code import recorded, save
from streaming.landing.write import SIDE_TABLES
from streaming.processing import RECORDS_WORTH_COMPILING
from streaming.windows.late import typed_late

FILE = "reused.json"
LATE, DUPLICATES = "silver.late", "silver.duplicates"


@dataclass(frozen=True)
class Served:
    """The served tables that a replay reuses: their generation, one version of each, and the end of each partition."""

    generation: int
    versions: dict[str, int]
    ends: list[tuple[str, int, int]]
    """Topic, partition, and the offset before which every record is in the tables."""

    @property
    def end_of(self) -> Ends:
        """Return the ends by topic and partition."""
        return {(topic, partition): end for topic, partition, end in self.ends}

    def chunks(self, settings: Settings, name: str, schema: pa.Schema) -> Iterator[pa.Table]:
        """Read a table at its version, up to the ends, with the columns of a schema."""
        table = table_location(settings, name, self.generation).table()
        table.load_as_version(self.versions[name])
        before_end = self._before_end(name)
        # One thread: with several, the process sometimes aborts at exit.
        for batch in table.to_pyarrow_dataset().to_batches(columns=schema.names, use_threads=False):
            yield pa.Table.from_batches([batch]).cast(schema).filter(before_end)

    def _before_end(self, name: str) -> pc.Expression:
        topic, found = table_named(name).topic, pc.scalar(False)
        for each, partition, end in self.ends:
            if topic in (None, each):
                inside = (pc.field("partition") == partition) & (pc.field("offset") < end)
                found = found | (inside if topic else inside & (pc.field("topic") == each))
        return found


def land_by_reference(spark: SparkSession, settings: Settings, generation: int) -> None:
    """Write the silver tables and the ledger of a replay from the served ones, or finish this after a kill."""
    folder = job_folder(LANDING, settings, generation)
    served = _load(folder, generation) or _fix(settings, folder)
    create_missing(list(served.versions), settings, generation)
    batch = Batch(spark.range(0), LANDING, 0, 1, generation, settings, is_replay=True)
    for name in served.versions:
        if name != LATE:
            target = batch.location(name)
            schema = _schema(target)
            rows = _read_ahead(_rows(spark, settings, served, name, schema))
            append_once(target, pa.RecordBatchReader.from_batches(schema, rows), batch.txn_app_id, batch.id)
            failpoint(f"after {name}")
    failpoint("after reused tables")
    ledger.record_entry(counted(batch, served.generation, served.end_of), batch)


def _fix(settings: Settings, folder: Location) -> Served:
    """Choose what to copy, and store it; refuse if landing again may give other rows."""
    job = job_named(LANDING)
    generation = serving(settings).of_job(job)
    ends = ledger.landed_up_to(settings, LANDING, generation)  # first: the tables have at least what it counts
    names = [table.name for table in landed_tables()] + list(SIDE_TABLES)
    versions = {name: table_location(settings, name, generation).table().version() for name in names}
    # Last: a redrive stores its plan before it changes a table, so none has changed these versions.
    if found := reasons(settings):
        raise LakehouseError(*found[0])
    save(folder, recorded(job_folder(LANDING, settings, generation)))
    served = Served(generation, versions, [(*place, end) for place, end in sorted(ends.items())])
    (folder / FILE).write(json.dumps(asdict(served)))
    failpoint("after reused versions")
    return served


def _load(folder: Location, generation: int) -> Served | None:
    start_over = f"lakehouse replay drop {generation}   (then: lakehouse replay run --source silver)"
    values = (folder / FILE).read_json(start_over)
    return Served(**values | {"ends": [tuple(each) for each in values["ends"]]}) if values else None


def _rows(spark: SparkSession, settings: Settings, served: Served, name: str, schema: pa.Schema) -> Iterator[pa.Table]:
    """Return what landing again would write to a table."""
    yield from served.chunks(settings, name, schema)
    topic, first = table_named(name).topic, pc.field("duplicate_of").is_null()
    if topic or name == DUPLICATES:
        late = served.chunks(settings, LATE, _schema(table_location(settings, LATE, served.generation)))
        mine = (rows.filter(first & (pc.field("topic") == topic) if topic else ~first) for rows in late)
        for rows in _gathered(mine, settings.streaming.records_on_driver):
            yield (_typed(spark, rows, topic) if topic else rows).select(schema.names).cast(schema)


def _read_ahead(tables: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    """Read in another thread: the writer pulls from inside deltalake's runtime, which cannot read a table too."""
    with ThreadPoolExecutor(1) as reader:
        ahead = reader.submit(next, tables, None)
        while (table := ahead.result()) is not None:
            ahead = reader.submit(next, tables, None)
            yield from table.to_batches()


def _gathered(tables: Iterator[pa.Table], least: int) -> Iterator[pa.Table]:
    """Join tables until they have so many rows: live landing has left a file for every batch with a late record."""
    waiting: list[pa.Table] = []
    for table in tables:
        waiting.append(table)
        if sum(map(len, waiting)) >= max(least, 1):
            yield pa.concat_tables(waiting)
            waiting = []
    if any(map(len, waiting)):
        yield pa.concat_tables(waiting)


def _typed(spark: SparkSession, late: pa.Table, topic: str) -> pa.Table:
    """Parse late records of a topic; compiling the parser for few of them would cost more than it saves."""
    settings = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    before = {name: spark.conf.get(name) for name in settings}
    try:
        for name, value in settings.items() if len(late) <= RECORDS_WORTH_COMPILING else ():
            spark.conf.set(name, value)
        # combine_chunks: pyspark 4.1 loses rows when createDataFrame gets an Arrow table of several chunks.
        return typed_late(spark.createDataFrame(late.combine_chunks()), topic).toArrow()
    finally:
        for name, was in before.items():
            spark.conf.set(name, str(was))


def _schema(location: Location) -> pa.Schema:
    return location.table().to_pyarrow_dataset().schema
