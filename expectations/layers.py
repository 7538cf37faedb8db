"""Layer checks: audit the served tables of a layer, and the views that dbt serves."""

from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, tables
from config.settings import Settings
from expectations.gate import Audit, audit
from expectations.ledger_snapshot import live_generation
from lake import generations, ledger
from lake.ledger import LANDING, REDRIVE
from lake.location import table_location
from lake.tables import read

# Downstream first: the inputs of a table are read after it, so they contain everything it was built from.
ORDER = ("gold", "silver", "bronze")
WRITTEN_BY = {
    "bronze": "Landing writes it: lakehouse stream run",
    "silver": "Landing writes it: lakehouse stream run",
    "gold": "The jobs that read silver write it: lakehouse stream run",
    "serving": "dbt builds its views: lakehouse dbt build",
}
ANSWERS = ("lambda", "kappa")


def check(spark: SparkSession, settings: Settings, layer: str) -> list[Audit]:
    """Audit the served tables of a layer; return no audit if it has no tables yet."""
    if layer == "serving":
        return _check_serving(spark, settings)
    entries = ledger.entries(settings, [LANDING, REDRIVE])
    frames = _frames(spark, settings, generations.live(settings))
    checked = {name: frame for name, frame in frames.items() if tables()[name].layer == layer}
    landed = [row for row in entries if row["generation"] == live_generation(settings)]
    others = {name: frame for name, frame in frames.items() if name not in checked}
    if not checked:
        return []
    return [audit(checked, settings=settings, name=f"check {layer}", context_frames=others, ledger=landed)]


def _check_serving(spark: SparkSession, settings: Settings) -> list[Audit]:
    """Audit the serving views of dbt: each keeps the rules of its gold table."""
    audits = []
    for answer in ANSWERS:
        names = {table.name: f"serving.{answer}_{table.name.partition('.')[2]}" for table in _gold()}
        views = {name: spark.table(view) for name, view in names.items() if spark.catalog.tableExists(view)}
        if views:
            audits.append(audit(views, settings=settings, name=f"check serving {answer}", names=names))
    return audits


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
