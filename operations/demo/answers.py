"""The demo's part on the answers: the batch layer, where the stream is off and why, and the replay that closes it."""

from collections.abc import Callable

from pyspark.sql import SparkSession
from rich.console import Console

from batch.commands import show as show_run
from batch.run import run as run_batch
from config.settings import Settings
from expectations.parity.commands import show as show_parity
from expectations.parity.comparison import batch_side, compared, generation_side, keep
from expectations.parity.reasons import LOGIC, Explained
from local.simulator.truth import Truth
from operations.demo.logic import job as longer_than_a_second
from streaming.commands import shown
from streaming.generations import serving
from streaming.job import Job, jobs
from streaming.replay import certificate, manifest
from streaming.replay.certificate import Certificate
from streaming.replay.promotion import promote, rollback
from streaming.replay.run import run as run_replay

Watch = Callable[[str], None]


def show_batch(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Run the batch layer; say whether it was published."""
    with console.status("The archive …") as status:
        result = run_batch(spark, settings, full=True, watch=lambda what: status.update(f"{what} …"))
    show_run(result, console)
    return result.publication is not None


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


def show_replay(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Replay all of history, prove it, promote it, and compare again: nothing may differ."""
    proof = _replayed(console, settings, spark, list(jobs().values()))
    if proof is None:
        return False
    found = _compared(console, settings, spark)
    return not any(each.parity.rows for each in found.values())


def show_logic(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Try a change of logic on all of history, serve it, and go back; say whether each differing row is told apart."""
    proof = _replayed(console, settings, spark, [longer_than_a_second()])
    if proof is None:
        return False
    reasons = {reason for each in proof.values["against"]["what is served"].values() for reason in each["by_reason"]}
    switched = rollback(settings)
    number = next(iter(switched.values()))
    console.print(f"And back: one commit, and generation {number} of gold.views_per_minute is served again.")
    return reasons == {LOGIC} and set(switched) == {"gold.views_per_minute"}


def _replayed(console: Console, settings: Settings, spark: SparkSession, chosen: list[Job]) -> Certificate | None:
    """Replay jobs, verify what they built, and promote it; give its certificate if it was promoted."""
    todo = manifest.new(settings, chosen, "kafka", "earliest")
    tables = f"{len(todo.tables)} tables" if len(todo.tables) > 1 else todo.tables[0]
    console.print(f"Generation {todo.generation} is built beside what is served: {tables}.")
    with shown(console) as watch:
        built = run_replay(spark, settings, todo, watch, chosen)
    console.print(f"Built in {built.seconds:.0f} s.")
    with console.status("Comparing …") as status:
        proof = certificate.verify(spark, settings, built, lambda what: status.update(f"Comparing {what} …"), chosen)
    _show(console, proof)
    with console.status("Checking its quality …"):
        audit = promote(spark, settings, built, None, lambda: None)
    audit.show(console)
    if audit.passed:
        console.print(f"✓ One commit, and generation {built.generation} is served.", style="green")
    return proof if audit.passed else None


def _show(console: Console, proof: Certificate) -> None:
    for what, tables in proof.values["against"].items():
        reasons: dict[str, int] = {}
        for each in tables.values():
            for reason, rows in each["by_reason"].items():
                reasons[reason] = reasons.get(reason, 0) + rows
        told = ", ".join(f"{rows:,} {reason}" for reason, rows in reasons.items()) or "nothing differs"
        equal = sum(each["equal"] for each in tables.values())
        console.print(f"Against {what}: {equal:,} rows equal; {told}.")


def _compared(console: Console, settings: Settings, spark: SparkSession) -> dict[str, Explained]:
    batch = batch_side(spark, settings)
    stream = generation_side(spark, settings, serving(settings), "stream")
    if batch is None:
        return {}
    with console.status("Comparing …") as status:
        found = compared(spark, settings, batch, stream, watch=lambda what: status.update(f"Comparing {what} …"))
    keep(settings, found)
    show_parity(found, console)
    return found
