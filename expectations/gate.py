"""The gate: tables, served or not yet, against every rule they have -> an audit, which lets them pass or not."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any

import great_expectations as gx
from great_expectations.core.run_identifier import RunIdentifier
from great_expectations.core.validation_definition import ValidationDefinition
from pyspark.sql import DataFrame
from rich.console import Console

from config.declarations import table_named
from config.errors import LakehouseError
from config.settings import Settings
from config.table_rules import LEDGER, view
from expectations import data_docs, metrics
from expectations.suites import suite
from lake.ledger import TERMS, Entry, by_partition


@dataclass(frozen=True)
class Finding:
    """What came of one rule: its own sentence, how many rows break it, some of them, and how to see more."""

    table: str
    rule: str
    severity: str
    description: str
    rows: int
    sample: list[dict[str, Any]]
    look: str


@dataclass(frozen=True)
class Audit:
    """What came of checking tables."""

    name: str
    findings: list[Finding]

    @property
    def failures(self) -> list[Finding]:
        """Give the rules that do not hold and forbid to serve the tables."""
        return [each for each in self.findings if each.rows and each.severity != "warn"]

    @property
    def warnings(self) -> list[Finding]:
        """Give the rules that do not hold, but only warn."""
        return [each for each in self.findings if each.rows and each.severity == "warn"]

    @property
    def passed(self) -> bool:
        """Tell whether the tables may be served."""
        return not self.failures

    def show(self, console: Console) -> None:
        """Print every rule that does not hold, in its own words, with what to do next."""
        for each in (*self.failures, *self.warnings):
            mark, style = ("✗", "red") if each.severity != "warn" else ("!", "yellow")
            rows = "1 row" if each.rows == 1 else f"{each.rows:,} rows"
            console.print(f"{mark} {each.table}: {each.description} ({each.rule}, {rows})", style=style, markup=False)
            for row in each.sample:
                console.print("    " + ", ".join(f"{name} {value}" for name, value in row.items()), markup=False)
            console.print(f"    {each.look}", markup=False)
        held = len(self.findings) - len(self.failures) - len(self.warnings)
        if self.passed:
            tables = len({each.table for each in self.findings})
            console.print(f"✓ {self.name}: {held} rules hold for {tables} tables.", style="green", markup=False)


def audit(
    frames: Mapping[str, DataFrame],
    *,
    settings: Settings,
    name: str,
    beside: Mapping[str, DataFrame] | None = None,
    ledger: Entry | None = None,
) -> Audit:
    """Check tables against all their rules, write Data Docs, keep the results in ops.metrics.

    frames: by the declared name of a table, its rows, be they served or not. name: who asks and what for, as in
    `batch 12`; its first word is the folder of ops.metrics. beside: tables that rules may refer to, not checked
    themselves. ledger: the entries that landing's tables must agree with. A rule that needs what is not given is left
    out.
    """
    there = _views({**(beside or {}), **frames}, ledger)
    context, now = data_docs.context(settings), datetime.now(UTC)
    results: dict[Any, Any] = {}
    for layer, tables in groupby(sorted(frames), key=lambda table: table_named(table).layer):
        checkpoint = _checkpoint(context, f"{name} {layer}", list(tables), there)
        results |= checkpoint.run(batch_parameters=dict(frames), run_id=RunIdentifier(name, now)).run_results
    data_docs.publish(context, settings, list(results))
    findings = [finding for result in results.values() for finding in _findings(result)]
    metrics.record(settings, name, now, findings)
    return Audit(name, findings)


class _OfItsFrame(ValidationDefinition):  # type: ignore[misc]
    """Checks the frame named after it: by itself, a checkpoint would hand one frame to all."""

    def run(self, *, batch_parameters: Any = None, **rest: Any) -> Any:
        """Run the suite on the frame of its name."""
        return super().run(batch_parameters={"dataframe": batch_parameters[self.name]}, **rest)


def _views(frames: Mapping[str, DataFrame], ledger: Entry | None) -> set[str]:
    """Give the tables, and what the ledger says of them, the names by which rules know them."""
    for name, frame in frames.items():
        frame.createOrReplaceTempView(view(name))
    if not frames or not ledger:
        return set(frames)
    rows = [(*place, *counts.values()) for place, counts in by_partition(ledger).items()]
    columns = ", ".join(f"{name} bigint" for name in ("until", "input", *TERMS))
    spark = next(iter(frames.values())).sparkSession
    spark.createDataFrame(rows, f"topic string, partition int, {columns}").createOrReplaceTempView(view(LEDGER))
    return {*frames, LEDGER}


def _checkpoint(context: Any, name: str, tables: list[str], there: set[str]) -> gx.Checkpoint:
    """Put a layer's tables, each with its suite, into one checkpoint."""
    source = context.data_sources.add_spark(name, persist=False)
    definitions = []
    for table in tables:
        frame = source.add_dataframe_asset(table).add_batch_definition_whole_dataframe(table)
        expected = context.suites.add_or_update(suite(table, there))
        definitions.append(context.validation_definitions.add(_OfItsFrame(name=table, data=frame, suite=expected)))
    return gx.Checkpoint(name=name, validation_definitions=definitions)


def _findings(result: Any) -> Iterable[Finding]:
    for each in result.results:
        told, found = each.expectation_config.meta, each.result
        if each.exception_info.get("raised_exception"):
            raise LakehouseError(f"{result.suite_name}: {told['rule']} cannot be told: {_reason(each.exception_info)}")
        yield Finding(
            table=result.suite_name,
            rule=told["rule"],
            severity=told["severity"],
            description=told["description"],
            rows=found["observed_value"],
            sample=found["details"]["sample"],
            look=told["look"],
        )


def _reason(raised: Mapping[str, Any]) -> str:
    return str(raised["exception_message"]).partition("\n")[0]
