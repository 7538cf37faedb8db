"""The demo's part on Lambda: the batch layer recomputes its answers, is checked, and published."""

from pyspark.sql import SparkSession
from rich.console import Console

from batch.commands import show
from batch.run import run
from config.settings import Settings


def show_batch(console: Console, settings: Settings, spark: SparkSession, *, full: bool = True) -> bool:
    """Run the batch layer, on everything or on what has changed; say whether it was published."""
    with console.status("The archive …") as status:
        result = run(spark, settings, full=full, on_step=lambda what: status.update(f"{what} …"))
    show(result, console)
    return result.publication is not None
