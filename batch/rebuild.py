"""Rebuild: judged records -> silver, then every gold table, for the days whose inputs changed."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch import records, segments
from batch.fence import Offsets
from batch.overrides import BATCH_OVERRIDES, LOOKUP_TABLES
from batch.segments import SEGMENT, WHOLE, Segments
from config.declarations import table_named
from config.settings import Settings
from lake.ordering import first_per_key_spark
from streaming.job import Job, in_stages, jobs
from streaming.landing.parse import contracts

Watch = Callable[[str], None]
ALL = None
"""Stands for all days there are."""


@dataclass
class Rebuild:
    """One run: what it builds on, what it found changed, and what its tables consist of so far."""

    spark: SparkSession
    settings: Settings
    run: str
    base: Mapping[str, Segments]
    """The tables of the last publication; empty for a full run."""

    tables: dict[str, Segments] = field(default_factory=dict)
    changed: dict[str, set[date]] = field(default_factory=dict)
    """By table, the segments that this run has computed."""

    def silver(self, archive: DataFrame, since: Offsets, watch: Watch) -> None:
        """Sort the records of the days that got any since the given offsets into silver, quarantine and duplicates."""
        horizon = self.settings.streaming.dedup_horizon_minutes
        days = records.days_beyond(self._judged(), since)
        touched = {day for each in days.values() for day in each}
        if (24 * 60) % horizon:  # a stretch may cross midnight: copies of one day depend on the next
            touched |= {day + timedelta(days=step) for day in touched for step in (-1, 1)}
        judged = self._judged().filter(F.col(SEGMENT).isin(touched)) if self.base else self._judged()
        aside = records.exceptions(judged, horizon).localCheckpoint()
        writes: list[Callable[[], None]] = []
        for contract in contracts():
            if days.get(contract.topic.name):
                source, copies = judged, aside
                if self.base and not segments.by_days(contract.table):
                    source = self._judged().filter(F.col("topic") == contract.topic.name)
                    copies = records.exceptions(source, horizon)
                rows = records.landed(source, copies, contract)
                writes.append(partial(self._write, contract.table.name, rows, touched, watch))
        if days:
            quarantined = records.quarantined(judged, aside, archive)
            duplicates = records.duplicates(judged, aside)
            writes.append(partial(self._write, "silver.quarantine", quarantined, touched, watch, F.col(SEGMENT)))
            writes.append(partial(self._write, "silver.duplicates", duplicates, touched, watch, F.col(SEGMENT)))
        self._at_once(writes)

    def gold(self, watch: Watch) -> None:
        """Run every job that follows tables on those that changed, in the order in which data flows."""
        for stage in in_stages([job for job in jobs().values() if job.reads]):
            reads = {job: (*job.reads, *LOOKUP_TABLES.get(job.name, ())) for job in stage}
            changed = [job for job in stage if any(self.changed.get(name) for name in reads[job])]
            self._at_once([partial(self._compute, job, reads[job], watch) for job in changed])

    def frame(self, name: str, days: set[date] | None = ALL) -> DataFrame:
        """Read a table as this run has it so far, or some days of it."""
        chosen = segments.only(self.segments_of(name), days)
        return segments.read(self.spark, self.settings, name, chosen)

    def segments_of(self, name: str) -> Segments:
        """Give what a table consists of: what this run computed, and what the last publication had besides."""
        return self.tables.get(name, dict(self.base.get(name, {})))

    def all_tables(self) -> dict[str, Segments]:
        """Give every table as this run would publish it."""
        names = {*self.base, *self.tables}
        return {name: self.segments_of(name) for name in sorted(names)}

    def _compute(self, job: Job, reads: tuple[str, ...], watch: Watch) -> None:
        (name,) = job.writes
        table = table_named(name)
        apart = self._days_apart(job) if self.base and segments.by_days(table) else None
        if apart is None:
            inputs, outputs = ALL, ALL
        else:
            touched = {day for read in reads for day in self._reaching(read)}
            outputs = {day + timedelta(days=step) for day in touched for step in range(-apart, apart + 1)}
            inputs = {day + timedelta(days=step) for day in outputs for step in range(-apart, apart + 1)}
        frames = {read: self.frame(read, inputs if segments.by_days(table_named(read)) else ALL) for read in reads}
        rows = first_per_key_spark(
            BATCH_OVERRIDES.get(job.name, job.apply)(frames), table.key, job.bounded.pick_first_by
        )
        rows = rows if outputs is ALL else rows.filter(segments.segment_of(table).isin(outputs))
        self._write(name, rows, outputs, watch)

    def _reaching(self, name: str) -> set[date]:
        """Give the days that a changed table reaches: its own, or, for a dimension, those of who looks it up."""
        changed = self.changed.get(name, set())
        if segments.by_days(table_named(name)) or not changed:
            return changed
        before = segments.read(self.spark, self.settings, name, self.base.get(name, {}))
        now = self.frame(name)
        keys = ("user_id", "valid_from")
        new = now.join(before.select(*keys, "event_id"), [*keys, "event_id"], "left_anti")
        since = new.groupBy("user_id").agg(F.min("valid_from").alias("since"))
        clicks = self.frame("silver.clicks").join(F.broadcast(since), "user_id").filter("event_time >= since")
        return {row[0] for row in clicks.select("event_date").distinct().collect()}

    def _days_apart(self, job: Job) -> int | None:
        """Say how many days apart two events may lie that count in one row; none if there is no bound."""
        return None if job.bounded.max_event_gap is None else -(-job.bounded.max_event_gap // timedelta(days=1))

    def _at_once(self, work: list[Callable[[], None]]) -> None:
        """Do independent work side by side: for small tables, most of it is waiting for Spark to plan and commit."""
        with ThreadPoolExecutor(self.settings.streaming.parallel_writes) as pool:
            for done in [pool.submit(each) for each in work]:
                done.result()

    def _judged(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(records.folder(self.settings)))

    def _write(
        self, name: str, rows: DataFrame, days: set[date] | None, watch: Watch, segment: Column | None = None
    ) -> None:
        watch(name)
        segments.write(rows, name, self.run, self.settings, segment)
        computed = segments.written(self.settings, name, self.run)
        all_days = days is ALL or not self.base or WHOLE in computed
        before = {} if all_days else self.base.get(name, {})
        kept = {day: run for day, run in before.items() if day not in (days or set())}
        self.tables[name] = kept | dict.fromkeys(computed, self.run)
        # A segment that has no rows any more has changed too.
        self.changed[name] = computed | (set(self.base.get(name, {})) - set(kept))
