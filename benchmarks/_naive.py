"""The usual chain, with our Spark settings: Kafka -> bronze -> silver -> gold, each a plain query after the other."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import deltalake
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from benchmarks.landing import parsed_events
from config.declarations import topics
from config.kafka import end_offsets, spark_source_options
from config.settings import Settings
from streaming.roles.aggregator.revenue_per_hour import revenue_per_hour


class NaiveChain:
    """Starts one query after the other, each when there is something for it to follow."""

    def __init__(self, settings: Settings, spark: SparkSession, topic: str, feed: Callable[[], object]) -> None:
        """Follow a topic from its end; feed: sends a few records, so that the tables get created."""
        self._settings, self._spark, self._topic, self._feed = settings, spark, topic, feed
        self.home = settings.home / f"naive-{topic}"
        self._queries: list[Any] = []

    def stop(self) -> None:
        """Let each query finish what the one before has left it, then stop it.

        Stopped within a Python callback, one dies of a regular expression by which Spark looks through its own error.
        """
        for query in self._queries:
            query.processAllAvailable()
            query.stop()

    def to_silver(self) -> None:
        """Start the first two hops: all topics to bronze, one of them on to silver, typed."""
        names = [name for name, topic in topics().items() if topic.archived]
        ends: dict[str, dict[str, int]] = {}
        for (topic, partition), offset in end_offsets(self._settings, names).items():
            ends.setdefault(topic, {})[str(partition)] = offset
        log = (
            self._spark.readStream.format("kafka")
            .options(**spark_source_options(self._settings))
            .option("subscribe", ",".join(names))
            .option("startingOffsets", json.dumps(ends))
            .load()
        )
        self._append(log, "bronze")
        events = self._follow("bronze").filter(F.col("topic") == self._topic)
        typed = events.select("partition", "offset", *parsed_events([self._topic]))
        self._append(typed.select("partition", "offset", f"{self._topic}.*"), "silver")
        self._await("silver")

    def to_revenue(self) -> None:
        """Start all three hops: payments are added up by hour and merged into gold."""
        self.to_silver()
        payments = self._follow("silver").withColumn("event_time", F.to_timestamp("event_time"))
        added = revenue_per_hour(payments.withWatermark("event_time", "10 minutes"))
        writer = added.writeStream.outputMode("update").foreachBatch(self._merge)
        writer = writer.option("checkpointLocation", str(self.checkpoint("gold")))
        self._queries.append(writer.trigger(processingTime="0 seconds").start())
        self._await("gold")

    def checkpoint(self, hop: str) -> Path:
        """Say where a hop's checkpoint is."""
        return self.home / f"{hop}-checkpoint"

    def _merge(self, rows: DataFrame, _batch: int) -> None:
        path = str(self.home / "gold")
        if not deltalake.DeltaTable.is_deltatable(path):
            rows.write.format("delta").save(path)
            return
        rows.createOrReplaceTempView("changed")
        rows.sparkSession.sql(
            f"""merge into delta.`{path}` t using changed s
            on t.window_start = s.window_start and t.merchant_id = s.merchant_id
            when matched then update set * when not matched then insert *"""
        )

    def _append(self, rows: DataFrame, hop: str) -> None:
        writer = rows.writeStream.format("delta").option("checkpointLocation", str(self.checkpoint(hop)))
        self._queries.append(writer.trigger(processingTime="0 seconds").start(str(self.home / hop)))

    def _follow(self, hop: str) -> DataFrame:
        self._await(hop)
        return self._spark.readStream.format("delta").load(str(self.home / hop))

    def _await(self, hop: str) -> None:
        while not deltalake.DeltaTable.is_deltatable(str(self.home / hop)):
            self._feed()
            time.sleep(1)
