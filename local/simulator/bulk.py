"""Bulk load: the shards of a plan -> Kafka, written by Spark: one task per Kafka partition, in arrival order."""

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as f

from config.kafka import spark_options
from config.settings import Settings
from local.simulator.plan import Plan
from local.simulator.shards import DDL, ByShard, Truths, worker
from local.simulator.shop import topics_of
from local.simulator.stamp import arrival_stamp
from local.simulator.truth import Truth, new_truth

# Large producer batches: throughput matters here, latency does not.
PRODUCER = {"kafka.linger.ms": "50", "kafka.batch.size": "262144"}
# The overhead of a Python worker's task is longer than two shards take: use few, long tasks.
_SHARDS_PER_TASK = 30


def generated(spark: SparkSession, plan: Plan) -> tuple[DataFrame, Callable[[], Truths]]:
    """Return all records as a DataFrame, and the truths of its shards, accumulated while it is computed."""
    truths = spark.sparkContext.accumulator({}, ByShard())
    tasks = max(spark.sparkContext.defaultParallelism, plan.shards // _SHARDS_PER_TASK)
    numbers = spark.range(0, plan.shards, 1, numPartitions=min(tasks, plan.shards))
    return numbers.mapInArrow(worker(plan, truths), DDL), lambda: truths.value


def in_arrival_order(frame: DataFrame, plan: Plan) -> DataFrame:
    """Repartition by Kafka partition, and sort by arrival within each."""
    by_partition = frame.repartitionById(len(_topic_partitions(plan)), "partition_index")
    return by_partition.sortWithinPartitions("arrival_ms", "tie")


def topic_and_partition(plan: Plan) -> list[Column]:
    """Return the columns `topic` and `partition` of a record, from its `partition_index`."""
    topics, parts = zip(*_topic_partitions(plan), strict=True)
    return [
        f.array(*map(f.lit, topics))[f.col("partition_index")].alias("topic"),
        f.array(*map(f.lit, parts))[f.col("partition_index")].alias("partition"),
    ]


def _topic_partitions(plan: Plan) -> list[tuple[str, int]]:
    return [(topic.name, part) for topic in topics_of(plan).values() for part in range(topic.partitions)]


def write(frame: DataFrame, settings: Settings, spark: SparkSession, plan: Plan) -> None:
    """Write records to their Kafka partitions, with their arrival time as the timestamp."""
    mark = f.array(f.struct(f.lit("simulator_id").alias("key"), f.col("simulator_id").alias("value")))
    rows = frame.select(
        *topic_and_partition(plan),
        f.col("stamped_key").alias("key"),
        "value",
        f.when(f.col("simulator_id").isNotNull(), mark).alias("headers"),
    )
    stamp = arrival_stamp(settings, spark)
    options = {**spark_options(settings), **PRODUCER, "kafka.interceptor.classes": stamp, "includeHeaders": "true"}
    rows.write.format("kafka").options(**options).save()


class Load:
    """The bulk load of one plan: generates and writes its records in one pass, and collects the truth."""

    def __init__(self, settings: Settings, spark: SparkSession, plan: Plan) -> None:
        self._settings, self._spark, self._plan = settings, spark, plan
        self._frame, self._truths = generated(spark, plan)
        self._group = f"simulate {plan.run}"

    @property
    def shards_done(self) -> int:
        """Return the number of shards generated so far."""
        return len(self._truths())

    @property
    def truth(self) -> Truth:
        """Return the truth of the shards generated so far."""
        together = new_truth(self._plan)
        for _, of_shard in sorted(self._truths().items()):
            together.merge(of_shard)
        return together

    def run(self) -> Truth:
        """Write all records; return their truth."""
        self._spark.sparkContext.setJobGroup(self._group, f"Simulator: {self._plan.events:,} events")
        write(in_arrival_order(self._frame, self._plan), self._settings, self._spark, self._plan)
        return self.truth

    def cancel(self) -> None:
        """Cancel the Spark jobs; records that were written stay in Kafka."""
        self._spark.sparkContext.cancelJobGroup(self._group)
