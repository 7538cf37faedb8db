"""Step: every served table keeps its rules; Great Expectations shows the result of each."""

from config.terminal import Terminal
from expectations import layers
from expectations.gate import Audit
from operations.demo.context import Context
from operations.demo.progress import progress
from operations.demo.step import Step


def run(context: Context) -> bool:
    """Check the tables of every layer and write Data Docs; return whether no rule failed."""
    audits: list[Audit] = []
    for layer in ("bronze", "silver", "gold"):
        with progress(context.console, f"Checking {layer}"):
            audits += layers.check(context.spark, context.settings, layer)
    with progress(context.console, "Writing Data Docs"):
        from expectations import data_docs  # imports Great Expectations

        data_docs.publish(context.settings, audits)
    return _show(context.console, audits)


def _show(console: Terminal, audits: list[Audit]) -> bool:
    for audit in audits:
        audit.show(console)
    return all(audit.passed for audit in audits)


step = Step(
    title="Quality checks: the rules of every table, in Great Expectations' Data Docs",
    part="checks",
    run=run,
    pages={"Quality checks (Data Docs)": "reports/data-docs/index.html"},
)
