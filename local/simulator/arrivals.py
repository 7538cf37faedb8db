"""Arrivals: all shards -> their records in arrival order, through a scratch file to keep memory constant."""

import heapq
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from local.simulator.plan import Plan
from local.simulator.records import SCHEMA, Record, rows
from local.simulator.shop import shard_batch

_ROWS_PER_BATCH = 256


@contextmanager
def in_arrival_order(plan: Plan, scratch: Path, done: Callable[[int], None]) -> Iterator[Iterator[Record]]:
    """Generate a plan's shards, call `done` with the size of each, then yield all records in arrival order."""
    scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryFile(dir=scratch) as file:
        shards = []
        with pa.ipc.new_file(file, SCHEMA) as writer:
            batches = 0
            for shard in range(plan.shards):
                records = shard_batch(plan, shard).sort_by([("arrival_ms", "ascending"), ("tie", "ascending")])
                writer.write_table(pa.Table.from_batches([records]), max_chunksize=_ROWS_PER_BATCH)
                shards.append(range(batches, batches := batches + -(-len(records) // _ROWS_PER_BATCH)))
                done(len(records))
        reader = pa.ipc.open_file(file)
        yield heapq.merge(*(_read(reader, numbers) for numbers in shards), key=lambda record: record[2:4])


def _read(reader: pa.ipc.RecordBatchFileReader, numbers: range) -> Iterator[Record]:
    for number in numbers:
        yield from rows(reader.get_batch(number))
