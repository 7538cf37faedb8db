"""The demo's part on Lambda: the batch layer recomputes everything, is checked, and published."""

from pyspark.sql import SparkSession
from rich.console import Console

from batch.commands import show
from batch.run import run
from config.settings import Settings


def show_batch(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Run the batch layer; say whether it was published."""
    with console.status("The archive …") as status:
        result = run(spark, settings, full=True, watch=lambda what: status.update(f"{what} …"))
    show(result, console)
    return result.publication is not None
