"""Logs: a broker, an archive or hand-made rows -> a DuckDB connection with `records`, the raw log."""

import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb
import pyarrow as pa
from deltalake import DeltaTable
from kafka import KafkaConsumer, TopicPartition

SCHEMA = pa.schema(
    {
        "topic": pa.string(),
        "partition": pa.int32(),
        "offset": pa.int64(),
        "key": pa.binary(),
        "value": pa.binary(),
        "arrival_time": pa.timestamp("ms", "UTC"),
    }
)
_CHUNK = 100_000
_PATIENCE_SECONDS = 60


def from_rows(rows: Iterable[tuple[Any, ...]]) -> duckdb.DuckDBPyConnection:
    """Load records from tuples (topic, partition, offset, key, value, arrival time or its milliseconds)."""
    log = _empty()
    _append(log, list(rows))
    return log


def from_kafka(servers: str, topics: Iterable[str]) -> duckdb.DuckDBPyConnection:
    """Read all committed records of some topics, from the beginning to the current end."""
    log = _empty()
    consumer = KafkaConsumer(
        bootstrap_servers=servers,
        isolation_level="read_committed",
        enable_auto_commit=False,
        fetch_max_bytes=64 << 20,
        max_partition_fetch_bytes=16 << 20,
        max_poll_records=_CHUNK,
    )
    try:
        places = [
            TopicPartition(topic, part) for topic in topics for part in consumer.partitions_for_topic(topic) or ()
        ]
        chunk: list[tuple[Any, ...]] = []
        for record in _until_the_end(consumer, places):
            chunk.append((record.topic, record.partition, record.offset, record.key, record.value, record.timestamp))
            if len(chunk) == _CHUNK:
                _append(log, chunk)
                chunk.clear()
        _append(log, chunk)
    finally:
        consumer.close()
    return log


def from_bronze(folder: Path | str) -> duckdb.DuckDBPyConnection:
    """Read the archive in place: the data files of an append-only Delta table."""
    log = _connect()
    # File names are URIs: a space in a folder's name is %20.
    files = [unquote(address) for address in DeltaTable(folder).file_uris()]
    if not files:
        log.execute(_CREATE)
        return log
    names = ", ".join("'" + name.replace("'", "''") + "'" for name in files)
    # Microseconds since the epoch are the same for timestamps with and without a time zone.
    log.execute(f"""
        create temp view records as
        select topic, "partition", "offset", key, value, make_timestamp(epoch_us(arrival_time)) as arrival_time
        from read_parquet([{names}], hive_partitioning = true, hive_types = {{'topic': varchar}}, union_by_name = true)
    """)
    return log


_CREATE = """
create temp table records (
    topic varchar, "partition" integer, "offset" bigint, key blob, value blob, arrival_time timestamp
)
"""


def _connect() -> duckdb.DuckDBPyConnection:
    return duckdb.connect(config={"temp_directory": str(Path(tempfile.gettempdir()) / "oracle-spill")})


def _empty() -> duckdb.DuckDBPyConnection:
    log = _connect()
    log.execute(_CREATE)
    return log


def _append(log: duckdb.DuckDBPyConnection, rows: list[tuple[Any, ...]]) -> None:
    columns = list(zip(*rows, strict=True)) or [()] * len(SCHEMA)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, SCHEMA.types, strict=True)]
    log.register("chunk", pa.Table.from_arrays(arrays, schema=SCHEMA))
    log.execute(
        "insert into records select * replace (make_timestamp(epoch_us(arrival_time)) as arrival_time) from chunk"
    )
    log.unregister("chunk")


def _until_the_end(consumer: Any, places: list[TopicPartition]) -> Iterator[Any]:
    """Yield records until every partition is read to its end; transaction markers advance it without a record."""
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    left = consumer.end_offsets(places)
    waiting_since = time.monotonic()
    while left := {place: end for place, end in left.items() if consumer.position(place) < end}:
        polled = consumer.poll(timeout_ms=500)
        if polled:
            waiting_since = time.monotonic()
        elif time.monotonic() - waiting_since > _PATIENCE_SECONDS:
            raise TimeoutError(f"Nothing came for {_PATIENCE_SECONDS} s, and these are not at their end: {left}")
        for records in polled.values():
            yield from records
