"""The demo's part on Kappa: history made anew from the log, proved, promoted; and a change of logic, and back."""

from functools import partial

from pyspark.sql import SparkSession
from rich.console import Console

from config.settings import Settings
from expectations.parity.reasons import LOGIC
from lake.catalog import keep_up
from operations.demo.logic import job as longer_than_a_second
from replay import certificate, manifest
from replay.certificate import Certificate
from replay.promotion import promote, rollback
from replay.run import run as run_replay
from streaming.commands import shown
from streaming.job import Job, jobs


def show_replay(console: Console, settings: Settings, spark: SparkSession) -> bool:
    """Replay all of history, prove it, and promote it; say whether it is served."""
    return _replayed(console, settings, spark, list(jobs().values())) is not None


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
    with shown(console) as on_progress:
        built = run_replay(spark, settings, todo, on_progress, chosen)
    console.print(f"Built in {built.seconds:.0f} s.")
    with console.status("Comparing …") as status:
        proof = certificate.verify(spark, settings, built, lambda what: status.update(f"Comparing {what} …"), chosen)
    _show(console, proof)
    with console.status("Checking its quality …"):
        audit = promote(spark, settings, built, None, partial(keep_up, settings))
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
