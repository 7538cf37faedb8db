"""A snapshot of what the ledger check compares: the ledger, Kafka's offsets, and the tables at one version each."""

from collections.abc import Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, landed_tables, topics
from config.kafka import Offsets, begin_offsets, end_offsets, topic_ids
from config.settings import Settings
from lake import generations, ledger, losses
from lake.ledger import LANDING, REDRIVE, TERMS, Entry
from lake.location import table_location
from streaming.landing.write import SIDE_TABLES

ARCHIVE = "bronze.events"
PARTITION = ["topic", "partition"]
SUMMED = ("input", *TERMS, "lost")


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
    recorded: pa.Table
    """The ledger's entries of landing and of redrives, in batch order. A live day has thousands for each partition."""

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

    def entries(self, since: Offsets) -> Entry:
        """Return the entries that reach beyond an offset of their partition; all of a partition without one."""
        found = _with_since(self.recorded, since)
        columns = [*self.recorded.column_names]
        found = found.filter(pc.greater(found["to_offset"], found["since"])).select(columns)
        rows: Entry = found.sort_by([(name, "ascending") for name in ("job", "epoch", "batch")]).to_pylist()
        return rows

    def sums_before(self, since: Offsets) -> dict[tuple[str, int], dict[str, int]]:
        """Add up, by partition, the entries and losses that begin before an offset."""
        found = {place: dict.fromkeys(("entries", *SUMMED), 0) for place in since}
        lost = pa.Table.from_pylist(self.losses, self.recorded.schema)
        rows = _with_since(pa.concat_tables([self.recorded, lost]), since)
        rows = rows.filter(pc.less(rows["from_offset"], rows["since"]))
        sums = rows.group_by(PARTITION, use_threads=False).aggregate(
            [([], "count_all"), *((name, "sum") for name in SUMMED)]
        )
        for row in sums.to_pylist():
            found[row["topic"], row["partition"]] = {
                "entries": row["count_all"],
                **{name: row[f"{name}_sum"] or 0 for name in SUMMED},
            }
        return found

    @property
    def waiting(self) -> int:
        """Count the records in Kafka that are not landed yet."""
        return sum(max(end - self.ends.get(partition, 0), 0) for partition, end in self.log_ends.items())


def take(settings: Settings) -> LedgerSnapshot:
    """Take a snapshot of the served generation."""
    generation = live_generation(settings)
    recorded = ledger.recorded(settings, [LANDING, REDRIVE], generation)
    lost = losses.recorded(settings, LANDING)
    landed = recorded.filter(pc.equal(recorded["job"], LANDING)).group_by(PARTITION, use_threads=False)
    landed_ends = landed.aggregate([("to_offset", "max")]).rename_columns([*PARTITION, "to_offset"])
    ends = losses.past_losses(ledger.ends_of(landed_ends.to_pylist()), lost)
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
        recorded,
        lost,
        ends,
        begin_offsets(settings, names),
        end_offsets(settings, names),
        topic_ids(settings, names),
        tables,
    )


def _with_since(entries: pa.Table, since: Offsets) -> pa.Table:
    """Add the offset of its partition to each entry, or 0."""
    places = [{"topic": topic, "partition": partition, "since": end} for (topic, partition), end in since.items()]
    schema = pa.schema([("topic", pa.string()), ("partition", pa.int32()), ("since", pa.int64())])
    found = entries.join(pa.Table.from_pylist(places, schema), PARTITION, join_type="left outer", use_threads=False)
    return found.set_column(found.column_names.index("since"), "since", pc.fill_null(found["since"], 0))


def live_generation(settings: Settings) -> int:
    """Return the served generation of landing's tables, which are always built together."""
    return max(generations.live(settings)[table.name] for table in landed_tables())
