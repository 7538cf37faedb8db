"""The ledger of a landing by reference: what was written, counted per partition, against what came in.

One commit wrote each table, so a partition has one entry, or one on each side of a loss. The number of records that
came in is that of the served ledger; every outcome is counted in the tables of the replay. If both do not agree, the
served tables are not what their own ledger says, and nothing is built on them.
"""

from collections.abc import Callable
from datetime import datetime
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from config.declarations import landed_tables, table_named
from config.errors import LakehouseError
from lake import ledger, losses
from lake.batch import Batch
from lake.ledger import LANDING, TERMS, Ends, Entry
from lake.tables import read
from streaming.landing.write import SIDE_TABLES


def counted(spark: SparkSession, batch: Batch, served: int, ends: Ends) -> Entry:
    """Count the rows that a batch has written to every table, per range of offsets.

    served: the generation that it copied, up to the ends.
    """
    landed = [
        row
        for row in ledger.entries(batch.settings, [LANDING])
        if row["generation"] == served and row["to_offset"] <= ends.get((row["topic"], row["partition"]), 0)
    ]
    came = ranges(landed, losses.recorded(batch.settings, LANDING))
    outcomes = {ledger.offset_range(row): dict(row) for row in came}
    for row in _occurrences(spark, batch, came):
        entry = outcomes.get((row["topic"], row["partition"], row["from_offset"]))
        if entry is None:
            raise _unequal(f"{row['topic']}/{row['partition']}: {row['rows']:,} rows are counted by no ledger entry")
        entry[row["term"]] = row["rows"]
        if row["term"] == "silver":
            entry |= {"min_event_time": row["first"], "max_event_time": row["last"]}
    place = {"job": LANDING, "generation": batch.generation, "epoch": batch.epoch, "batch": batch.id}
    for entry in outcomes.values():
        if (found := sum(entry[term] for term in TERMS)) != entry["input"]:
            span = f"offsets {entry['from_offset']:,} to {entry['to_offset'] - 1:,}"
            where = f"{entry['topic']}/{entry['partition']}, {span}"
            raise _unequal(f"{where}: the ledger counts {entry['input']:,} records, the tables have {found:,}")
    return [place | entry for entry in outcomes.values()]


def ranges(entries: Entry, lost: Entry) -> Entry:
    """Add up the entries of each partition: one commit wrote them all. A loss between two entries separates them.

    The outcomes are left at 0; they are counted.
    """
    found: Entry = []
    for row in sorted(entries, key=ledger.offset_range):
        if found and _follows(row, found[-1], lost):
            last = found[-1]
            last["to_offset"] = row["to_offset"]
            last["input"] += row["input"]
            last["bytes"] += row["bytes"]
            last["min_arrival_time"] = _among(min, last["min_arrival_time"], row.get("min_arrival_time"))
            last["max_arrival_time"] = _among(max, last["max_arrival_time"], row.get("max_arrival_time"))
        else:
            names = ("topic", "partition", "from_offset", "to_offset", "input", "bytes")
            arrivals = {name: row.get(name) for name in ("min_arrival_time", "max_arrival_time")}
            times = dict.fromkeys(("min_event_time", "max_event_time"))
            found.append({name: row[name] for name in names} | arrivals | dict.fromkeys(TERMS, 0) | times)
    return found


def _follows(row: dict[str, Any], last: dict[str, Any], lost: Entry) -> bool:
    """Return whether an entry goes on where another ends; offsets between them are transaction markers, or lost."""
    place = (last["topic"], last["partition"])
    between = range(last["to_offset"], row["from_offset"])
    return place == (row["topic"], row["partition"]) and not any(
        each["from_offset"] in between for each in lost if place == (each["topic"], each["partition"])
    )


def _among(choose: Callable[..., datetime], *times: datetime | None) -> datetime | None:
    return choose((time for time in times if time is not None), default=None)


def _occurrences(spark: SparkSession, batch: Batch, came: Entry) -> list[dict[str, Any]]:
    """Count the rows of each outcome per range of offsets, with the span of their event times."""
    found = []
    for name, term in [*((table.name, "silver") for table in landed_tables()), *SIDE_TABLES.items()]:
        topic, rows = table_named(name).topic, read(spark, name, batch.settings, batch.generation)
        of_topic = F.lit(topic).alias("topic") if topic else F.col("topic")
        # Quarantined records may have no event time.
        time = F.col("event_time") if topic else F.lit(None).cast("timestamp").alias("event_time")
        found.append(rows.select(of_topic, "partition", "offset", time, F.lit(term).alias("term")))
    spans = spark.createDataFrame(
        [tuple(row[name] for name in ("topic", "partition", "from_offset", "to_offset")) for row in came],
        "topic string, partition int, from_offset bigint, to_offset bigint",
    )
    rows = reduce(DataFrame.unionByName, found).alias("row")
    same = "row.topic = span.topic and row.partition = span.partition"
    inside = f"{same} and offset >= from_offset and offset < to_offset"
    counts = (
        rows.join(F.broadcast(spans.alias("span")), F.expr(inside), "left")
        .groupBy("row.topic", "row.partition", "from_offset", "term")
        .agg(F.count("*").alias("rows"), F.min("event_time").alias("first"), F.max("event_time").alias("last"))
    )
    counted: list[dict[str, Any]] = counts.toArrow().to_pylist()
    return counted


def _unequal(what: str) -> LakehouseError:
    return LakehouseError(f"The served tables are not what their ledger says. {what}.", "lakehouse check ledger")
