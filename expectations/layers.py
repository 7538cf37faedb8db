"""The layers as they are served: which tables there are to check, and what their rules refer to."""

from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, tables
from config.settings import Settings
from expectations.gate import Audit, Finding, audit
from expectations.ledger_check import live_generation
from lake import generations, ledger
from lake.ledger import LANDING, REDRIVE
from lake.location import table_location
from lake.tables import read

# Downstream first: what a table was made of is read after it, so that nothing is missed that was there in time.
ORDER = ("gold", "silver", "bronze")
MADE_BY = {
    "bronze": "Landing makes it: lakehouse stream run",
    "silver": "Landing makes it: lakehouse stream run",
    "gold": "The jobs that follow silver make it: lakehouse stream run",
    "serving": "dbt makes its views: lakehouse dbt build",
}
ANSWERS = ("lambda", "kappa")


def check(spark: SparkSession, settings: Settings, layer: str) -> list[Audit]:
    """Audit the tables of a layer as they are served; nothing where there is no table."""
    if layer == "serving":
        return _check_answers(spark, settings)
    entries = ledger.entries(settings, [LANDING, REDRIVE])
    frames = _frames(spark, settings, generations.live(settings))
    checked = {name: frame for name, frame in frames.items() if tables()[name].layer == layer}
    agreed = [row for row in entries if row["generation"] == live_generation(settings)]
    beside = {name: frame for name, frame in frames.items() if name not in checked}
    return [audit(checked, settings=settings, name=f"check {layer}", beside=beside, ledger=agreed)] if checked else []


def _check_answers(spark: SparkSession, settings: Settings) -> list[Audit]:
    """Audit what dbt serves: each answer keeps the rules of the gold table that it answers for."""
    found = []
    for answer in ANSWERS:
        names = {table.name: f"serving.{answer}_{table.name.partition('.')[2]}" for table in _gold()}
        there = {name: spark.table(view) for name, view in names.items() if spark.catalog.tableExists(view)}
        if there:
            done = audit(there, settings=settings, name=f"check serving {answer}")
            found.append(Audit(done.name, [_as(names[each.table], each) for each in done.findings]))
    return found


def _as(view: str, finding: Finding) -> Finding:
    """Tell what was found of a gold table's rule as of the view that was looked at."""
    return replace(finding, table=view, look=finding.look.replace(finding.table, view))


def _gold() -> list[Table]:
    return [table for table in tables().values() if table.layer == "gold"]


def _frames(spark: SparkSession, settings: Settings, live: dict[str, int]) -> dict[str, DataFrame]:
    found = {}
    for table in sorted(tables().values(), key=lambda table: (*ORDER, table.layer).index(table.layer)):
        generation = live.get(table.name, generations.FIRST)
        if table.layer in ORDER and _exists(table, settings, generation):
            found[table.name] = read(spark, table.name, settings, generation)
    return found


def _exists(table: Table, settings: Settings, generation: int) -> bool:
    return table_location(settings, table.name, generation).is_table()
