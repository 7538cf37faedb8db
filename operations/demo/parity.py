"""The demo's part on parity: where the stream is off and why, and that a replay closes it."""

from pyspark.sql import SparkSession
from rich.console import Console

from batch.compare.commands import show
from batch.comparison_side import batch_side
from config.settings import Settings
from expectations.parity.comparison import compared, generation_side, keep
from expectations.parity.reasons import Explained
from lake.generations import serving
from local.simulator.truth import Truth


def show_difference(console: Console, settings: Settings, spark: SparkSession, truth: Truth) -> bool:
    """Compare the stream with the batch layer; say whether every row that differs does so for late events."""
    found = _compared(console, settings, spark)
    late = sum(len(ids) for ids in truth.late.values())
    off = sum(each.parity.rows for each in found.values())
    console.print(
        f"{late:,} events came too late for the stream and wait in silver.late; {off:,} rows are off because of them. "
        "The batch layer counts them."
    )
    return off > 0 and not any(each.unexplained for each in found.values())


def show_equality(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Compare again, after a replay; say whether nothing differs any more."""
    return not any(each.parity.rows for each in _compared(console, settings, spark).values())


def _compared(console: Console, settings: Settings, spark: SparkSession) -> dict[str, Explained]:
    batch = batch_side(spark, settings)
    stream = generation_side(spark, settings, serving(settings), "stream")
    if batch is None:
        return {}
    with console.status("Comparing …") as status:
        found = compared(spark, settings, batch, stream, watch=lambda what: status.update(f"Comparing {what} …"))
    keep(settings, found)
    show(found, console)
    return found
