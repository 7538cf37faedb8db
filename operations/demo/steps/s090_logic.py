"""Step: change a job's logic, replay it, serve the result and roll back."""

from expectations.parity.reasons import LOGIC
from operations.demo.context import Context
from operations.demo.logic import job as longer_than_a_second
from operations.demo.step import Step
from operations.demo.steps.s070_replay import replay

TABLE = "gold.views_per_minute"


def run(context: Context) -> bool:
    """Replay the changed job, promote it, roll back; return whether the changed logic explains every differing row."""
    from replay.promotion import rollback

    proof = replay(context, [longer_than_a_second()])
    if proof is None:
        return False
    reasons = {reason for each in proof.values["against"]["what is served"].values() for reason in each["by_reason"]}
    switched = rollback(context.settings)
    number = next(iter(switched.values()))
    context.console.print(f"Rolled back by one commit: generation {number} of {TABLE} is served again.")
    return reasons == {LOGIC} and set(switched) == {TABLE}


step = Step(title="A change of logic: replay, promote, roll back", part="replay", run=run)
