"""Landing's write: the classified rows of a micro-batch -> bronze.events, each silver table and the side tables.

A small batch is an Arrow table in this process, a large one a Spark DataFrame; both are split the same way.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from config.declarations import table_named
from lake.batch import Batch
from lake.tables import ORIGIN, append
from streaming.landing.classify import SILVER
from streaming.landing.contract import Contract, contracts
from streaming.landing.parse import column_paths, landing_columns

ARCHIVE = "bronze.events"
SIDE_TABLES = {"silver.quarantine": "quarantined", "silver.late": "late", "silver.duplicates": "duplicates"}

Rows: TypeAlias = pa.Table | DataFrame


def split_by_table(rows: Rows, classified: pa.Table) -> dict[str, Rows]:
    """Split a batch by the table that each row goes to; every row also goes to the archive."""
    return _split_arrow(rows, classified) if isinstance(rows, pa.Table) else _split_spark(rows, classified)


def write_tables(batch: Batch, rows_by_table: Mapping[str, Rows]) -> None:
    """Append the rows of each table; the writes are independent and mostly wait for I/O, so they run in parallel."""
    writes: list[Callable[[], None]] = []
    for name, rows in rows_by_table.items():
        if table_named(name).versioned_by:
            append(batch, name, rows)  # first: the jobs that read the other tables look up versions in this one
        else:
            writes.append(partial(append, batch, name, rows))
    with ThreadPoolExecutor(batch.settings.streaming.parallel_writes) as pool:
        for done in [pool.submit(write) for write in writes]:
            done.result()


def typed(rows: pa.Table, contract: Contract) -> pa.Table:
    """Select the columns of a topic's table from parsed rows in Arrow."""
    return pa.table(
        {
            name: pc.struct_field(rows[path[0]], list(path[1:])) if len(path) > 1 else rows[name]
            for name, path in column_paths(contract).items()
        }
    )


def _split_arrow(rows: pa.Table, classified: pa.Table) -> dict[str, Rows]:
    parts: dict[str, Rows] = {ARCHIVE: rows}
    to_silver = pc.equal(classified["outcome"], SILVER)
    for contract in contracts():
        of_topic = pc.and_(to_silver, pc.equal(rows["topic"], contract.topic.name))
        if pc.any(of_topic).as_py():
            parts[contract.table.name] = typed(rows, contract).filter(of_topic)
    others = pc.invert(to_silver)
    side_rows, outcomes = rows.drop_columns(["rules"]).filter(others), classified.filter(others)
    for column in ("outcome", "rules", "duplicate_of"):
        side_rows = side_rows.append_column(column, outcomes[column])
    return parts | _split_side_tables(side_rows)


def _split_spark(rows: DataFrame, classified: pa.Table) -> dict[str, Rows]:
    """Split a batch in Spark; the rows for the side tables are few, and are collected."""
    parts: dict[str, Rows] = {ARCHIVE: rows}
    to_silver = pc.equal(classified["outcome"], SILVER)
    topics_in_silver = set(classified.filter(to_silver)["topic"].unique().to_pylist())
    others = classified.filter(pc.invert(to_silver)).select([*ORIGIN, "outcome", "rules", "duplicate_of"])
    # combine_chunks: pyspark 4.1 loses rows when createDataFrame gets an Arrow table of several chunks.
    outcomes = F.broadcast(rows.sparkSession.createDataFrame(others.combine_chunks())) if len(others) else None
    for contract in contracts():
        if contract.topic.name in topics_in_silver:
            of_topic = rows.filter(F.col("topic") == contract.topic.name)
            if outcomes:
                of_topic = of_topic.join(outcomes.select(*ORIGIN), list(ORIGIN), "left_anti")
            parts[contract.table.name] = of_topic.select(*landing_columns(contract))
    return parts | _split_side_tables(rows.drop("rules").join(outcomes, list(ORIGIN)).toArrow()) if outcomes else parts


def _split_side_tables(rows: pa.Table) -> dict[str, Rows]:
    parts = {name: rows.filter(pc.equal(rows["outcome"], outcome)) for name, outcome in SIDE_TABLES.items()}
    return {name: part for name, part in parts.items() if len(part)}
