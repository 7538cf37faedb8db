"""Step: write a day of shop events with known defects into Kafka."""

from local.simulator.plan import Plan
from local.simulator.run import simulate
from operations.demo.context import Context
from operations.demo.step import Step


def run(context: Context) -> bool:
    """Generate the day."""
    _ = context.spark  # the simulator takes the process's session
    truth = simulate(context.settings, Plan(seed=context.seed, events=context.events), context.console)
    context.console.print(f"{sum(truth.records.values()):,} records are in Kafka.")
    return True


step = Step(title="A day of shop events, with known defects: simulator → Kafka", part="stream", run=run)
