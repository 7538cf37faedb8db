"""Step: compare again after the replay: no row differs."""

from operations.demo.context import Context
from operations.demo.step import Step
from operations.demo.steps.s060_difference import compare


def run(context: Context) -> bool:
    """Compare; return whether every row is equal."""
    found = compare(context)
    return bool(found) and not any(each.parity.rows for each in found.values())


step = Step(title="Lambda and Kappa compared again: after the replay no row differs", part="replay", run=run)
