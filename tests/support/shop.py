"""A shop's log that live jobs read, and what readers find in its tables before, during and after a replay."""

from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from config.declarations import table_named
from config.settings import Settings, load_settings
from config.terminal import Terminal
from expectations.ledger_check import check_ledger, check_truth
from lake.generations import Source
from lake.location import table_location
from lake.views import delta, views
from local.simulator.plan import Plan
from local.simulator.run import simulate
from local.simulator.truth import read_truth
from replay import certificate, manifest
from replay import run as running
from replay.manifest import Replay
from streaming.job import job_named
from streaming.runner import Runner

# Each reads the one before, so that the steps of a replay always come in the same order.
ONE_BY_ONE = ("landing", "clicks_enriched", "views_per_minute")
Content = dict[str, tuple[int, Decimal | None]]


class Shop:
    """A log that is followed, and what readers find of it."""

    def __init__(self, settings: Settings, spark: SparkSession, jobs: tuple[str, ...]) -> None:
        self.settings, self.spark, self.jobs = settings, spark, [job_named(name) for name in jobs]
        self.tables = [name for job in self.jobs for name in job.writes if name != "bronze.events"]
        self.follow()

    def follow(self) -> None:
        """Run the live jobs until they have caught up; they are not cut, as partitions must not lie far apart."""
        Runner(self.settings, self.spark).run(self.jobs, until_caught_up=True)

    def begun(self, source: Source) -> Replay:
        """Leave what a replay of these jobs leaves that is killed as soon as it has begun."""
        todo = manifest.new(self.settings, self.jobs, source, "earliest")
        manifest.save(self.settings, todo)
        return todo

    def resumed(self, generation: int) -> Replay:
        """Bring a replay to its end."""
        return running.run(self.spark, load_settings(), manifest.interrupted(self.settings, generation))

    def proof(self, generation: int) -> dict[str, Any]:
        """Give what the certificate of a generation says; not of which tables, and not when."""
        replay = manifest.replay_of(self.settings, generation)
        values = certificate.verify(self.spark, self.settings, replay, lambda _: None).values
        return {name: value for name, value in values.items() if name not in ("generation", "state", "verified_at")}

    def content(self, generation: int) -> Content:
        """Tell the content of every table of a generation."""
        paths = {name: table_location(self.settings, name, generation) for name in self.tables}
        return self._content({name: f"select * from {delta(path)}" for name, path in paths.items()})

    def served(self) -> Content:
        """Tell the content of every table as readers find it."""
        return self._content(views(self.settings))

    def _content(self, queries: dict[str, str]) -> Content:
        parts = []
        for name in self.tables:
            columns = ", ".join(f"`{column}`" for column in table_named(name).stored)
            # Added up: of two equal rows neither is lost.
            content = f"sum(cast(xxhash64({columns}) as decimal(38, 0)))"
            parts.append(f"select '{name}' as name, count(*) as rows, {content} as content from ({queries[name]})")
        return {row.name: (row.rows, row.content) for row in self.spark.sql(" union all ".join(parts)).collect()}

    def goes_on(self, end: datetime) -> None:
        """Follow events that begin a little before the end of the others: none is lost, none is doubled."""
        start = end - timedelta(minutes=10)
        simulate(self.settings, Plan(seed=6, start=start, events=400, late=0.03), Terminal(quiet=True))
        self.follow()
        check = check_ledger(self.spark, self.settings)
        assert (check.faults, check.waiting) == ([], 0)
        assert check_truth(self.spark, self.settings, read_truth(self.settings)) == []
        found = {name: self.spark.sql(query) for name, query in views(self.settings).items() if name in self.tables}
        clicks = found["silver.clicks"]
        assert clicks.select("event_id").distinct().count() == clicks.count()
        assert found["silver.clicks_enriched"].count() == clicks.count()
        counted = found["gold.views_per_minute"].agg(F.sum("views")).collect()[0][0]
        assert counted == clicks.filter("type = 'page_view'").count()
