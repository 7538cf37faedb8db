"""The gate: check tables against all their rules -> an audit that decides whether they may be served."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from pyspark.sql import DataFrame

from config.settings import Settings
from config.table_rules import LEDGER, view
from config.terminal import Terminal
from expectations import metrics, notifications
from expectations.counting import Counted, count
from lake.ledger import TERMS, Entry, by_partition

LEDGER_COLUMNS = "topic string, partition int, " + ", ".join(f"{name} bigint" for name in ("until", "input", *TERMS))


@dataclass(frozen=True)
class Finding:
    """The result of one rule: its description, the number of rows that break it, a sample, and how to see more."""

    table: str
    rule: str
    severity: str
    description: str
    rows: int
    sample: list[dict[str, Any]]
    look: str


@dataclass(frozen=True)
class Audit:
    """The results of checking tables."""

    name: str
    findings: list[Finding]
    checked_at: datetime | None = None
    counted: Mapping[str, list[Counted]] = field(default_factory=dict)
    """The numbers behind the findings, by table, from which Great Expectations gets its results."""

    not_sent: tuple[str, ...] = ()
    """Notifications that could not be sent, each with the reason."""

    @property
    def failures(self) -> list[Finding]:
        """List the broken rules that block serving."""
        return [each for each in self.findings if each.rows and each.severity != "warn"]

    @property
    def warnings(self) -> list[Finding]:
        """List the broken rules that only warn."""
        return [each for each in self.findings if each.rows and each.severity == "warn"]

    @property
    def passed(self) -> bool:
        """Return whether the tables may be served."""
        return not self.failures

    def show(self, console: Terminal) -> None:
        """Print every broken rule with its description, a sample, and the command that shows more."""
        for each in (*self.failures, *self.warnings):
            mark, style = ("✗", "red") if each.severity != "warn" else ("!", "yellow")
            rows = "1 row" if each.rows == 1 else f"{each.rows:,} rows"
            console.print(f"{mark} {each.table}: {each.description} ({each.rule}, {rows})", style=style)
            for row in each.sample:
                console.print("    " + ", ".join(f"{name} {value}" for name, value in row.items()))
            console.print(f"    {each.look}")
        kept = len(self.findings) - len(self.failures) - len(self.warnings)
        if self.passed:
            tables = len({each.table for each in self.findings})
            console.print(f"✓ {self.name}: {kept} rules hold for {tables} tables.", style="green")
        for reason in self.not_sent:
            console.print(f"! Not notified: {reason}", style="yellow")


def audit(
    frames: Mapping[str, DataFrame],
    *,
    settings: Settings,
    name: str,
    context_frames: Mapping[str, DataFrame] | None = None,
    ledger: Entry | None = None,
    names: Mapping[str, str] | None = None,
) -> Audit:
    """Check tables against all their rules, append the results to ops.metrics, send notifications of a failure.

    frames: the rows to check, by declared table name, served or not. name: who checks what, like `batch 12`; its first
    word is the folder in ops.metrics. context_frames: tables that rules may refer to, not checked themselves. ledger:
    the entries that landing's tables must agree with. A rule that needs a table which is not given is skipped. names:
    what the user knows the tables as, if not by their declared names.
    """
    others, now = context_frames or {}, datetime.now(UTC)
    _create_views({**others, **frames}, ledger)
    counted = count(frames, others, ledger=bool(ledger and frames))
    findings = [_finding(each) for of_table in counted.values() for each in of_table]
    metrics.record(settings, name, now, findings)
    shown = names or {}
    findings = [_renamed(each, shown.get(each.table, each.table)) for each in findings]
    done = Audit(name, findings, now, {shown.get(table, table): each for table, each in counted.items()})
    return replace(done, not_sent=tuple(notifications.send(settings, done)))


def _create_views(frames: Mapping[str, DataFrame], ledger: Entry | None) -> None:
    """Create the temporary views that rules refer to, for tables and ledger."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(view(name))
    if frames and ledger:
        rows = [(*partition, *counts.values()) for partition, counts in by_partition(ledger).items()]
        spark = next(iter(frames.values())).sparkSession
        spark.createDataFrame(rows, LEDGER_COLUMNS).createOrReplaceTempView(view(LEDGER))


def _finding(counted: Counted) -> Finding:
    rule = counted.rule
    return Finding(rule.table, rule.name, rule.severity, rule.description, counted.rows, counted.sample, look=rule.look)


def _renamed(finding: Finding, name: str) -> Finding:
    return replace(finding, table=name, look=finding.look.replace(finding.table, name))
