"""Step: the next batch run recomputes only the days that the live events changed."""

from operations.demo.context import Context
from operations.demo.step import Step
from operations.demo.steps.s050_batch import publish


def run(context: Context) -> bool:
    """Run the batch layer on what has changed; return whether it was published."""
    return publish(context, full=False)


step = Step(title="Lambda: the next batch run recomputes only the days that changed", part="live", run=run)
