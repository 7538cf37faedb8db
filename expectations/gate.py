"""The gate: check tables against all their rules -> an audit that decides whether they may be served."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import great_expectations as gx
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.core.validation_definition import ValidationDefinition
from pyspark.sql import DataFrame

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from config.table_rules import LEDGER, view
from config.terminal import Terminal
from expectations import data_docs, metrics
from expectations.suites import suite
from lake.ledger import TERMS, Entry, by_partition


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


def audit(
    frames: Mapping[str, DataFrame],
    *,
    settings: Settings,
    name: str,
    context_frames: Mapping[str, DataFrame] | None = None,
    ledger: Entry | None = None,
) -> Audit:
    """Check tables against all their rules, publish Data Docs, append the results to ops.metrics.

    frames: the rows to check, by declared table name, served or not. name: who checks what, like `batch 12`; its first
    word is the folder in ops.metrics. context_frames: tables that rules may refer to, not checked themselves. ledger:
    the entries that landing's tables must agree with. A rule that needs a table which is not given is skipped.
    """
    available = _create_views({**(context_frames or {}), **frames}, ledger)
    context, now = data_docs.context(settings), datetime.now(UTC)
    results: dict[Any, Any] = {}
    for layer, tables in groupby(sorted(frames), key=lambda table: table_named(table).layer):
        checkpoint = _checkpoint(context, f"{name} {layer}", list(tables), available)
        results |= checkpoint.run(batch_parameters=dict(frames), run_id=RunIdentifier(name, now)).run_results
    data_docs.publish(context, settings, list(results))
    findings = [finding for result in results.values() for finding in _findings(result)]
    metrics.record(settings, name, now, findings)
    return Audit(name, findings)


class _TableValidation(ValidationDefinition):  # type: ignore[misc]
    """Validate the DataFrame of its own name: a checkpoint passes the same parameters to all its validations."""

    def run(self, *, batch_parameters: Any = None, **rest: Any) -> Any:
        """Run the suite on the DataFrame of this name."""
        return super().run(batch_parameters={"dataframe": batch_parameters[self.name]}, **rest)


def _create_views(frames: Mapping[str, DataFrame], ledger: Entry | None) -> set[str]:
    """Create the temporary views that rules refer to, for tables and ledger; return the available names."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(view(name))
    if not frames or not ledger:
        return set(frames)
    rows = [(*partition, *counts.values()) for partition, counts in by_partition(ledger).items()]
    columns = ", ".join(f"{name} bigint" for name in ("until", "input", *TERMS))
    spark = next(iter(frames.values())).sparkSession
    spark.createDataFrame(rows, f"topic string, partition int, {columns}").createOrReplaceTempView(view(LEDGER))
    return {*frames, LEDGER}


def _checkpoint(context: Any, name: str, tables: list[str], available: set[str]) -> gx.Checkpoint:
    """Build one checkpoint for the tables of a layer, each with its suite."""
    source = context.data_sources.add_spark(name, persist=False)
    definitions = []
    for table in tables:
        frame = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe(table)
        expected = context.suites.add_or_update(suite(table, available))
        definitions.append(context.validation_definitions.add(_TableValidation(name=table, data=frame, suite=expected)))
    return gx.Checkpoint(name=name, validation_definitions=definitions)


def _findings(result: Any) -> Iterable[Finding]:
    for each in result.results:
        rule, outcome = each.expectation_config.meta, each.result
        if each.exception_info.get("raised_exception"):
            raise LakehouseError(
                f"{result.suite_name}: {rule['rule']} cannot be checked: {_reason(each.exception_info)}"
            )
        yield Finding(
            table=result.suite_name,
            rule=rule["rule"],
            severity=rule["severity"],
            description=rule["description"],
            rows=outcome["observed_value"],
            sample=outcome["details"]["sample"],
            look=rule["look"],
        )


def _reason(exception_info: Mapping[str, Any]) -> str:
    return str(exception_info["exception_message"]).partition("\n")[0]
