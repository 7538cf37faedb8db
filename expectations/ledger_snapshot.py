"""A snapshot of what the ledger check compares: the ledger, Kafka's offsets, and the tables at one version each."""

from collections.abc import Mapping
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, landed_tables, topics
from config.kafka import Offsets, begin_offsets, end_offsets, topic_ids
from config.settings import Settings
from lake import generations, ledger, losses
from lake.ledger import LANDING, REDRIVE, Entry
from lake.location import table_location
from streaming.landing.write import SIDE_TABLES

ARCHIVE = "bronze.events"


@dataclass(frozen=True)
class TableVersion:
    """A version of a Delta table, and how many rows it has."""

    id: str
    version: int
    rows: int


@dataclass(frozen=True)
class LedgerSnapshot:
    """The state of one generation. The ledger is read first, so the tables have all that it counts."""

    settings: Settings
    generation: int
    entries: Entry
    losses: Entry
    ends: Offsets
    """Per partition, the offset after the last one that landing has accounted for."""

    log_starts: Offsets
    log_ends: Offsets
    topic_ids: Mapping[str, str]
    tables: Mapping[str, TableVersion]

    def read(self, spark: SparkSession, name: str) -> DataFrame:
        """Read a table at the version of the snapshot."""
        location = str(table_location(self.settings, name, self.generation))
        return spark.read.format("delta").option("versionAsOf", self.tables[name].version).load(location)

    def of_all_topics(self) -> list[tuple[str, str]]:
        """List the tables with records of every topic, with the term that they have in the ledger."""
        return [(name, term) for name, term in ((ARCHIVE, "bronze"), *SIDE_TABLES.items()) if name in self.tables]

    def of_one_topic(self) -> list[Table]:
        """List the silver tables, each of one topic."""
        return [table for table in landed_tables() if table.name in self.tables]

    @property
    def waiting(self) -> int:
        """Count the records in Kafka that are not landed yet."""
        return sum(max(end - self.ends.get(partition, 0), 0) for partition, end in self.log_ends.items())


def take(settings: Settings) -> LedgerSnapshot:
    """Take a snapshot of the served generation."""
    generation = live_generation(settings)
    entries = [row for row in ledger.entries(settings, [LANDING, REDRIVE]) if row["generation"] == generation]
    lost = losses.recorded(settings, LANDING)
    ends = losses.past_losses(ledger.ends_of(row for row in entries if row["job"] == LANDING), lost)
    names = sorted({topic for topic, _ in ends} | {name for name, topic in topics().items() if topic.archived})
    tables = {}
    for name in (ARCHIVE, *SIDE_TABLES, *(table.name for table in landed_tables())):
        location = table_location(settings, name, generation)
        if location.is_table():  # that of a topic declared since is created when landing starts again
            table = location.table()
            tables[name] = TableVersion(str(table.metadata().id), table.version(), table.count())
    return LedgerSnapshot(
        settings,
        generation,
        entries,
        lost,
        ends,
        begin_offsets(settings, names),
        end_offsets(settings, names),
        topic_ids(settings, names),
        tables,
    )


def live_generation(settings: Settings) -> int:
    """Return the served generation of landing's tables, which are always built together."""
    return max(generations.live(settings)[table.name] for table in landed_tables())
