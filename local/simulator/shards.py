"""Shards on a Spark worker. Every Python worker imports this module again, so it imports only what it needs."""

from collections.abc import Callable, Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.accumulators import Accumulator, AccumulatorParam

from local.simulator.columns import column, fixed, octets
from local.simulator.plan import Plan
from local.simulator.records import labelled
from local.simulator.shop import shard_batch, topics_of
from local.simulator.truth import Truth

DDL = "partition_index int, arrival_ms bigint, tie bigint, stamped_key binary, value binary, simulator_id binary"
Truths = dict[int, Truth]


class ByShard(AccumulatorParam[Truths]):
    """Accumulates the truth of each shard; a repeated task does not count twice."""

    def zero(self, value: Truths) -> Truths:
        """Return an empty value."""
        return {}

    def addInPlace(self, value1: Truths, value2: Truths) -> Truths:
        """Merge two values."""
        value1.update(value2)
        return value1


def worker(plan: Plan, truths: Accumulator[Truths]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Return a function for mapInArrow: shard numbers -> their records; it adds each shard's truth to `truths`."""

    def generate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for numbers in batches:
            for shard in numbers.column("id").to_pylist():
                records = shard_batch(plan, shard)
                truth = Truth()
                truth.add_batch(records)
                truths.add({shard: truth})
                yield _columns(records, plan)

    return generate


def _columns(records: pa.RecordBatch, plan: Plan) -> pa.RecordBatch:
    """Return the columns of records that Spark needs; `partition_index` counts the partitions of all topics."""
    first = np.cumsum([0, *(topic.partitions for topic in topics_of(plan).values())]).astype(np.int32)
    index = pc.add(column(first).take(records["topic"].indices), records["partition"])
    ids, none = records["id"].cast(pa.binary()), pa.nulls(len(records), pa.binary())
    mark = pc.if_else(labelled(records, "malformed"), ids, none)
    columns = [index, records["arrival_ms"], records["tie"], _stamped(records), records["value"], mark]
    names = ["partition_index", "arrival_ms", "tie", "stamped_key", "value", "simulator_id"]
    return pa.RecordBatch.from_arrays(columns, names)


def _stamped(records: pa.RecordBatch) -> pa.Array:
    """Prefix the keys with the arrival times, as ArrivalStamp expects them."""
    arrivals = np.frombuffer(records["arrival_ms"].buffers()[1], np.int64, len(records))
    stamps = fixed(arrivals.astype(">i8").view(np.uint8).reshape(-1, 8), pa.binary())
    return pc.binary_join_element_wise(stamps, records["key"], octets([b""])[0])
