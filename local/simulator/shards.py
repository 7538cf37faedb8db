"""Shards on a Spark worker: all that a Python worker needs of the simulator, and no more, as each imports it anew."""

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

DDL = "place int, arrival_ms bigint, tie bigint, stamped_key binary, value binary, simulator_id binary"
Truths = dict[int, Truth]


class ByShard(AccumulatorParam[Truths]):
    """Collects what each shard tells of itself, once, however often its task may run."""

    def zero(self, value: Truths) -> Truths:
        """Begin with none."""
        return {}

    def addInPlace(self, value1: Truths, value2: Truths) -> Truths:
        """Take in more."""
        value1.update(value2)
        return value1


def worker(plan: Plan, truths: Accumulator[Truths]) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Give the function from the numbers of shards to their records, which tells the truth of each by the way."""

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
    """Give what Spark needs of records: their place among all partitions of all topics, their time, their bytes."""
    first = np.cumsum([0, *(topic.partitions for topic in topics_of(plan).values())]).astype(np.int32)
    place = pc.add(column(first).take(records["topic"].indices), records["partition"])
    ids, none = records["id"].cast(pa.binary()), pa.nulls(len(records), pa.binary())
    mark = pc.if_else(labelled(records, "malformed"), ids, none)
    columns = [place, records["arrival_ms"], records["tie"], _stamped(records), records["value"], mark]
    return pa.RecordBatch.from_arrays(columns, ["place", "arrival_ms", "tie", "stamped_key", "value", "simulator_id"])


def _stamped(records: pa.RecordBatch) -> pa.Array:
    """Put the arrival times before the keys, as the arrival stamp takes them."""
    arrivals = np.frombuffer(records["arrival_ms"].buffers()[1], np.int64, len(records))
    stamps = fixed(arrivals.astype(">i8").view(np.uint8).reshape(-1, 8), pa.binary())
    return pc.binary_join_element_wise(stamps, records["key"], octets([b""])[0])
