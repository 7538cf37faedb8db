"""Bulk: the shards of a plan -> the log, as fast as Spark can, one task per Kafka partition in arrival order."""

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

# Large batches to the broker: there is nobody to wait for the first record of one.
PRODUCER = {"kafka.linger.ms": "50", "kafka.batch.size": "262144"}
# A Python worker spends more time before and after a task than on two shards: tasks are few and long.
_SHARDS_PER_TASK = 30


def generated(spark: SparkSession, plan: Plan) -> tuple[DataFrame, Callable[[], Truths]]:
    """Give the frame of all records and the truths of its shards, which come in while the frame is computed."""
    truths = spark.sparkContext.accumulator({}, ByShard())
    tasks = max(spark.sparkContext.defaultParallelism, plan.shards // _SHARDS_PER_TASK)
    numbers = spark.range(0, plan.shards, 1, numPartitions=min(tasks, plan.shards))
    return numbers.mapInArrow(worker(plan, truths), DDL), lambda: truths.value


def in_arrival_order(frame: DataFrame, plan: Plan) -> DataFrame:
    """Put each Kafka partition's records into one task, in the order of their arrival."""
    return frame.repartitionById(len(_places(plan)), "place").sortWithinPartitions("arrival_ms", "tie")


def topic_and_partition(plan: Plan) -> list[Column]:
    """Say by a record's place in which topic and partition it belongs."""
    topics, parts = zip(*_places(plan), strict=True)
    return [
        f.array(*map(f.lit, topics))[f.col("place")].alias("topic"),
        f.array(*map(f.lit, parts))[f.col("place")].alias("partition"),
    ]


def _places(plan: Plan) -> list[tuple[str, int]]:
    return [(topic.name, part) for topic in topics_of(plan).values() for part in range(topic.partitions)]


def write(frame: DataFrame, settings: Settings, spark: SparkSession, plan: Plan) -> None:
    """Write records to the log as they are, where they belong, each stamped with its arrival time."""
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
    """The bulk load of one plan: its records are generated and written in one pass, and the shards tell the truth."""

    def __init__(self, settings: Settings, spark: SparkSession, plan: Plan) -> None:
        self._settings, self._spark, self._plan = settings, spark, plan
        self._frame, self._truths = generated(spark, plan)
        self._group = f"simulate {plan.run}"

    @property
    def shards_done(self) -> int:
        """Count the shards that are generated."""
        return len(self._truths())

    @property
    def truth(self) -> Truth:
        """Tell the truth of the shards that are generated."""
        together = new_truth(self._plan)
        for _, told in sorted(self._truths().items()):
            together.merge(told)
        return together

    def run(self) -> Truth:
        """Write all of it."""
        self._spark.sparkContext.setJobGroup(self._group, f"Simulator: {self._plan.events:,} events")
        write(in_arrival_order(self._frame, self._plan), self._settings, self._spark, self._plan)
        return self.truth

    def cancel(self) -> None:
        """Give up; what is written stays written."""
        self._spark.sparkContext.cancelJobGroup(self._group)
