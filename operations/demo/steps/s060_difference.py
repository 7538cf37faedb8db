"""Step: compare the stream with the batch layer, and explain each row that differs."""

from batch.compare.commands import show
from expectations.parity.comparison import compared, keep
from expectations.parity.reasons import Explained
from expectations.parity.sides import generation_side
from lake.generations import serving
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step


def run(context: Context) -> bool:
    """Compare; return whether rows differ, and each of them because of late events."""
    found = compare(context)
    late = sum(len(ids) for ids in context.truth.late.values())
    differing = sum(each.parity.rows for each in found.values())
    context.console.print(
        f"{late:,} events arrived too late for the stream and are in silver.late; {differing:,} rows differ because of "
        "them. The batch layer counts them."
    )
    return differing > 0 and not any(each.unexplained for each in found.values())


def compare(context: Context) -> dict[str, Explained]:
    """Compare the batch layer with the served tables of the stream, and print the result."""
    from batch.comparison_side import batch_side

    spark, settings = context.spark, context.settings
    batch = batch_side(spark, settings)
    stream = generation_side(spark, settings, serving(settings), "stream")
    if batch is None:
        return {}
    with progress(context.console, "Comparing") as update:
        found = compared(settings, batch, stream, watch=update)
    keep(settings, found)
    show(found, context.console)
    return found


step = Step(title="Lambda and Kappa compared: which rows differ, and why", part="batch", run=run)
