"""The layers as they are served: which tables there are to check, and what their rules refer to."""

from pyspark.sql import DataFrame, SparkSession

from config.declarations import Table, tables
from config.settings import Settings
from expectations.conservation import live_generation
from expectations.gate import Audit, audit
from expectations.standing import LANDING, REDRIVE
from streaming import generations, ledger
from streaming.tables import read

# Downstream first: what a table was made of is read after it, so that nothing is missed that was there in time.
ORDER = ("gold", "silver", "bronze")
MADE_BY = {
    "bronze": "Landing makes it: lakehouse stream run",
    "silver": "Landing makes it: lakehouse stream run",
    "gold": "The jobs that follow silver make it: lakehouse stream run",
    "serving": "dbt makes it, and tests it as it does.",
}


def check(spark: SparkSession, settings: Settings, layer: str) -> Audit | None:
    """Audit the tables of a layer as they are served; none where there is none."""
    entries = ledger.entries(settings, [LANDING, REDRIVE])
    live = generations.live(settings)
    frames = _frames(spark, settings, live)
    checked = {name: frame for name, frame in frames.items() if tables()[name].layer == layer}
    if not checked:
        return None
    agreed = [row for row in entries if row["generation"] == live_generation(settings)]
    return audit(checked, settings=settings, name=f"check {layer}", beside=frames, ledger=agreed)


def _frames(spark: SparkSession, settings: Settings, live: dict[str, int]) -> dict[str, DataFrame]:
    found = {}
    for table in sorted(tables().values(), key=lambda table: (*ORDER, table.layer).index(table.layer)):
        generation = live.get(table.name, generations.FIRST)
        if table.layer in ORDER and _exists(table, settings, generation):
            found[table.name] = read(spark, table.name, settings.warehouse, generation)
    return found


def _exists(table: Table, settings: Settings, generation: int) -> bool:
    return (table.path(settings.warehouse, generation) / "_delta_log").is_dir()
