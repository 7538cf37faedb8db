"""Step: Kappa replays the whole log, proves the result and serves it."""

from functools import partial

from config.terminal import Terminal
from lake.catalog import keep_up
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step
from replay import certificate, manifest
from replay.certificate import Certificate
from replay.run import run as run_replay
from streaming.job import Job, jobs
from streaming.progress_display import shown


def run(context: Context) -> bool:
    """Replay all history with all jobs; return whether it was promoted."""
    return replay(context, list(jobs().values())) is not None


def replay(context: Context, chosen: list[Job]) -> Certificate | None:
    """Replay jobs, verify what they built and promote it; return its certificate if it was promoted."""
    from replay.promotion import promote

    console, settings, spark = context.console, context.settings, context.spark
    todo = manifest.new(settings, chosen, "kafka", "earliest")
    tables = f"{len(todo.tables)} tables" if len(todo.tables) > 1 else todo.tables[0]
    console.print(f"Build generation {todo.generation} next to the served one: {tables}.")
    with shown(console) as on_progress:
        built = run_replay(spark, settings, todo, on_progress, chosen)
    console.print(f"Built in {built.seconds:.0f} s.")
    with progress(console, "Comparing") as update:
        proof = certificate.verify(spark, settings, built, update, chosen)
    _show(console, proof)
    with progress(console, "Checking its quality"):
        audit = promote(spark, settings, built, None, partial(keep_up, settings), chosen)
    audit.show(console)
    if audit.passed:
        console.print(f"✓ Generation {built.generation} is served, by one commit.", style="green")
    return proof if audit.passed else None


def _show(console: Terminal, proof: Certificate) -> None:
    for what, tables in proof.values["against"].items():
        reasons: dict[str, int] = {}
        for each in tables.values():
            for reason, rows in each["by_reason"].items():
                reasons[reason] = reasons.get(reason, 0) + rows
        differing = ", ".join(f"{rows:,} differ: {reason}" for reason, rows in reasons.items()) or "no row differs"
        equal = sum(each["equal"] for each in tables.values())
        console.print(f"Compared with {what}: {equal:,} rows equal; {differing}.")


step = Step(
    title="Kappa: replay the log, prove the result, serve it",
    part="replay",
    run=run,
)
