"""Landing by reference: served silver tables + silver.late -> the silver tables of a replay, without parsing the log.

Landing the same records again with the same code gives each of them the outcome that it has, except that a replay sets
no event aside as late: the first copy of a late event goes to silver, further copies to silver.duplicates. So rows are
copied, and only the values in silver.late are parsed. Each table gets one commit; the ledger is written last, by
counting what was written.

What is copied is fixed at the start: one version of each table, and the end of each partition in the ledger, which is
read first. Landing writes the ledger last, so these versions have every record before the ends; of a batch that is not
complete yet, no row is taken. A killed replay reads the same rows again, and Delta skips what was committed.
"""

import json
from dataclasses import asdict, dataclass

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import Table, landed_tables, table_named
from config.errors import LakehouseError
from config.failpoints import failpoint
from config.settings import Settings
from lake import ledger
from lake.batch import Batch
from lake.generations import serving
from lake.ledger import LANDING, Ends
from lake.location import Location, table_location
from lake.tables import columns, create_missing
from replay.landing_again import reasons
from replay.reused_ledger import counted
from streaming.checkpoint import job_folder
from streaming.job import job_named
from streaming.landed_code import recorded, save
from streaming.landing.write import SIDE_TABLES, write_tables
from streaming.windows.late import typed_late

FILE = "reused.json"
FILE_BYTES = 128 * 2**20
"""About how much of a table one task copies."""


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

    def read(self, spark: SparkSession, settings: Settings, name: str) -> DataFrame:
        """Read a table at its version, up to the ends."""
        location = table_location(settings, name, self.generation)
        rows = spark.read.format("delta").option("versionAsOf", self.versions[name]).load(str(location))
        topic, before_end = table_named(name).topic, F.lit(False)
        for each, partition, end in self.ends:
            if topic in (None, each):
                in_topic = F.lit(True) if topic else F.col("topic") == each
                before_end |= in_topic & (F.col("partition") == partition) & (F.col("offset") < end)
        return rows.filter(before_end)


def land_by_reference(spark: SparkSession, settings: Settings, generation: int) -> None:
    """Write the silver tables and the ledger of a replay from the served ones, or finish this after a kill."""
    folder = job_folder(LANDING, settings, generation)
    served = _load(folder, generation) or _fix(settings, folder)
    names = list(served.versions)
    create_missing(names, settings, generation)
    late = served.read(spark, settings, "silver.late")
    batch = Batch(late, LANDING, 0, 1, generation, settings, is_replay=True)
    write_tables(batch, {name: _rows(spark, settings, served, name, late) for name in names if name != "silver.late"})
    failpoint("after reused tables")
    ledger.record_entry(counted(spark, batch, served.generation, served.end_of), batch)


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
    values = (folder / FILE).read_json(_start_over(generation))
    if values is None:
        return None
    return Served(**values | {"ends": [tuple(each) for each in values["ends"]]})


def _rows(spark: SparkSession, settings: Settings, served: Served, name: str, late: DataFrame) -> DataFrame:
    """Return what landing again would write to a table."""
    table, rows = table_named(name), served.read(spark, settings, name)
    if table.topic:
        rows = _stored(rows, table).unionByName(_stored(typed_late(late, table.topic), table))
    elif name == "silver.duplicates":
        rows = _stored(rows, table).unionByName(_stored(late.filter("duplicate_of is not null"), table))
    # Few tasks, because each writes a file for each partition, and live landing has left a small file per batch.
    tasks = max(2 * settings.spark.cores, table_location(settings, name, served.generation).size() // FILE_BYTES)
    return rows.coalesce(tasks)


def _stored(rows: DataFrame, table: Table) -> DataFrame:
    return rows.select(*columns(table))


def _start_over(generation: int) -> str:
    return f"lakehouse replay drop {generation}   (then: lakehouse replay run --source silver)"
