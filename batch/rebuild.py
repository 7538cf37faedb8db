"""Rebuild: parsed records -> silver, then every gold table, for the days whose inputs changed."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import date, timedelta
from functools import partial

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from batch import records, segments
from batch.fence import Offsets
from batch.segments import SEGMENT, WHOLE, Segments
from config.declarations import Table, table_named
from config.settings import Settings
from streaming.bounded import lookups, recompute
from streaming.job import Job, in_stages, jobs
from streaming.landing.contract import contracts

OnStep = Callable[[str], None]
"""Called with the name of each table before it is computed."""

ALL = None
"""Means all days."""


@dataclass
class Rebuild:
    """One run: its base, what it has recomputed, and the segments of each table so far."""

    spark: SparkSession
    settings: Settings
    run: str
    base: Mapping[str, Segments]
    """The tables of the last publication; empty for a full run."""

    stale: frozenset[str] = frozenset()
    """Tables whose code has changed since that publication: they are computed whole."""

    tables: dict[str, Segments] = field(default_factory=dict)
    changed: dict[str, set[date]] = field(default_factory=dict)
    """By table, the segments that this run has computed."""

    def silver(self, since: Offsets, on_step: OnStep) -> None:
        """Recompute silver, quarantine and duplicates for the days with records beyond the given offsets."""
        horizon = self.settings.streaming.dedup_horizon_minutes
        days = records.days_beyond(self._parsed(), since)
        touched = {day for each in days.values() for day in each}
        if (24 * 60) % horizon:  # a dedup window may cross midnight: duplicates of one day depend on the next
            touched |= {day + timedelta(days=step) for day in touched for step in (-1, 1)}
        parsed = self._parsed().filter(F.col(SEGMENT).isin(touched)) if self.base else self._parsed()
        aside = records.exceptions(parsed, horizon).localCheckpoint()
        writes: list[Callable[[], None]] = []
        for contract in contracts():
            if days.get(contract.topic.name):
                source, copies = parsed, aside
                if self.base and not segments.by_days(contract.table):
                    source = self._parsed().filter(F.col("topic") == contract.topic.name)
                    copies = records.exceptions(source, horizon)
                rows = records.landed(source, copies, contract)
                writes.append(partial(self._write, contract.table.name, rows, touched, on_step))
        if days:
            quarantined = records.quarantined(parsed, aside)
            duplicates = records.duplicates(parsed, aside)
            writes.append(partial(self._write, "silver.quarantine", quarantined, touched, on_step, F.col(SEGMENT)))
            writes.append(partial(self._write, "silver.duplicates", duplicates, touched, on_step, F.col(SEGMENT)))
        self._at_once(writes)

    def gold(self, on_step: OnStep) -> None:
        """Apply every job whose inputs or code changed, in data-flow order."""
        for stage in in_stages([job for job in jobs().values() if job.reads]):
            reads = {job: (*job.reads, *lookups(job)) for job in stage}
            changed = [job for job in stage if self._is_stale(job) or any(self.changed.get(n) for n in reads[job])]
            self._at_once([partial(self._compute, job, reads[job], on_step) for job in changed])

    def frame(self, name: str, days: set[date] | None = ALL) -> DataFrame:
        """Read a table, or some days of it, as this run has computed it so far."""
        chosen = segments.only(self.segments_of(name), days)
        return segments.read(self.spark, self.settings, name, chosen)

    def segments_of(self, name: str) -> Segments:
        """Return the segments of a table: those this run computed, else those of the last publication."""
        return self.tables.get(name, dict(self.base.get(name, {})))

    def all_tables(self) -> dict[str, Segments]:
        """Return every table as this run would publish it."""
        names = {*self.base, *self.tables}
        return {name: self.segments_of(name) for name in sorted(names)}

    def _compute(self, job: Job, reads: tuple[str, ...], on_step: OnStep) -> None:
        (name,) = job.writes
        table = table_named(name)
        in_days = self.base and segments.by_days(table) and not self._is_stale(job)
        apart = self._days_apart(job) if in_days else None
        if apart is None:
            inputs, outputs = ALL, ALL
        else:
            touched = {day for read in reads for day in self._affected_days(job, read)}
            outputs = {day + timedelta(days=step) for day in touched for step in range(-apart, apart + 1)}
            inputs = {day + timedelta(days=step) for day in outputs for step in range(-apart, apart + 1)}
        rows = self._rows(job, reads, inputs)
        if outputs is not ALL:
            rows = rows.filter(segments.segment_of(table).isin(outputs))
            if not table.key_fixes_partition:
                rows = rows.localCheckpoint()
                if self._has_keys_elsewhere(table, rows, outputs):
                    # Which row of such a key wins takes the events of all its days.
                    rows, outputs = self._rows(job, reads, ALL), ALL
        self._write(name, rows, outputs, on_step)

    def _rows(self, job: Job, reads: tuple[str, ...], days: set[date] | None) -> DataFrame:
        """Apply a job to some days of its inputs; keep one row of each key."""
        frames = {read: self.frame(read, days if segments.by_days(table_named(read)) else ALL) for read in reads}
        return recompute(job, frames)

    def _has_keys_elsewhere(self, table: Table, rows: DataFrame, days: set[date]) -> bool:
        """Tell whether the last publication has a key of these rows on a day that is not computed."""
        base = self.base.get(table.name, {})
        elsewhere = segments.read(self.spark, self.settings, table.name, segments.only(base, set(base) - days))
        return not elsewhere.join(rows.select(*table.key), table.key, "left_semi").isEmpty()

    def _is_stale(self, job: Job) -> bool:
        return not self.stale.isdisjoint(job.writes)

    def _affected_days(self, job: Job, name: str) -> set[date]:
        """Return the days of a job's input that a changed table affects.

        A table kept by days affects its changed days. A versioned dimension affects the days of the events that are
        joined with a new version: those of the same key, from the start of the version on.
        """
        changed, table = self.changed.get(name, set()), table_named(name)
        if segments.by_days(table) or not changed:
            return changed
        key = str(table.versioned_by)
        version = [key, "valid_from", "event_id"]
        before = segments.read(self.spark, self.settings, name, self.base.get(name, {}))
        new = self.frame(name).join(before.select(*version), version, "left_anti")
        since = F.broadcast(new.groupBy(key).agg(F.min("valid_from").alias("since")))
        days: set[date] = set()
        for read in (table_named(read) for read in job.reads):
            joined = self.frame(read.name).join(since, key).filter("event_time >= since")
            days |= {row[0] for row in joined.select(segments.segment_of(read)).distinct().collect()}
        return days

    def _days_apart(self, job: Job) -> int | None:
        """Return how many days apart two events of one row can be, or None if there is no bound."""
        return None if job.bounded.max_event_gap is None else -(-job.bounded.max_event_gap // timedelta(days=1))

    def _at_once(self, work: list[Callable[[], None]]) -> None:
        """Run independent work in parallel: for small tables, most of the time is planning and committing."""
        with ThreadPoolExecutor(self.settings.streaming.parallel_writes) as pool:
            for done in [pool.submit(each) for each in work]:
                done.result()

    def _parsed(self) -> DataFrame:
        return self.spark.read.format("delta").load(str(records.folder(self.settings)))

    def _write(
        self, name: str, rows: DataFrame, days: set[date] | None, on_step: OnStep, segment: Column | None = None
    ) -> None:
        on_step(name)
        segments.write(rows, name, self.run, self.settings, segment)
        computed = segments.written(self.settings, name, self.run)
        all_days = days is ALL or not self.base or WHOLE in computed
        before = {} if all_days else self.base.get(name, {})
        kept = {day: run for day, run in before.items() if day not in (days or set())}
        self.tables[name] = kept | dict.fromkeys(computed, self.run)
        # A segment that no longer has rows has changed too.
        self.changed[name] = computed | (set(self.base.get(name, {})) - set(kept))
