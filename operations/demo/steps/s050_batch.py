"""Step: Lambda's batch layer recomputes everything, checks it and publishes it."""

from batch.commands import show
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step


def publish(context: Context, *, full: bool) -> bool:
    """Run the batch layer, on everything or on what has changed; return whether it was published."""
    from batch.run import run as run_batch

    spark = context.spark
    with progress(context.console, "Batch run") as update:
        result = run_batch(spark, context.settings, full=full, on_step=update)
    show(result, context.console)
    return result.publication is not None


def run(context: Context) -> bool:
    """Recompute everything."""
    return publish(context, full=True)


step = Step(
    title="Lambda: the batch layer recomputes everything, is checked and published",
    part="batch",
    run=run,
    try_next=("compare --show-rows 3",),
)
