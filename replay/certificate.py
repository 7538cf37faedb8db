"""The certificate of a replay: hashes, counts, explained differences and broken rules, as JSON and as an HTML page."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader
from pyspark.sql import SparkSession

from config.declarations import table_named
from config.discovery import provided
from config.parallel import in_parallel
from config.settings import Settings
from expectations.gate import Audit
from expectations.parity.comparison import OnProgress, compared
from expectations.parity.reasons import Explained
from expectations.parity.rows import content_hash
from expectations.parity.sides import generation_side
from lake import ledger
from lake.costs import measured, record_cost
from lake.generations import serving
from lake.location import Location, warehouse
from lake.tables import read
from replay.audit import audited
from replay.checks import refuse_unfit, state_of
from replay.manifest import Replay, folder
from streaming.code_version import code_version
from streaming.job import Job
from streaming.previous_code import why_unavailable

SAMPLE = 5
State = Mapping[str, Mapping[str, Any]]


@dataclass(frozen=True)
class Certificate:
    """The result of `verify`; it allows a promotion if every differing row has a reason and every rule holds."""

    values: dict[str, Any]

    @property
    def unexplained(self) -> int:
        """Return the number of rows without a reason, over all comparisons."""
        return sum(each["unexplained"] for each in self._tables())

    @property
    def differing(self) -> int:
        """Return the number of rows that differ."""
        return sum(sum(each["by_reason"].values()) for each in self._tables())

    @property
    def state(self) -> State:
        """Return the state of the tables that it is about; certificates of older releases have none."""
        return dict(self.values.get("state", {}))

    @property
    def failures(self) -> list[dict[str, Any]]:
        """List the broken rules that block serving."""
        return list(self.values.get("audit", {}).get("failures", []))

    def _tables(self) -> list[dict[str, Any]]:
        return [each for against in self.values["against"].values() for each in against.values()]


def verify(
    spark: SparkSession, settings: Settings, replay: Replay, watch: OnProgress, jobs: list[Job] | None = None
) -> Certificate:
    """Compare a replay with the served tables and with every other answer, audit it, and write its certificate.

    It runs every check that a promotion runs, so that what it announces is true.
    jobs: the jobs of the replay, if they are not the project's own.
    """
    jobs = jobs or replay.jobs_to_run()
    refuse_unfit(settings, replay, jobs)
    state = state_of(settings, replay)  # before the comparison: a change during it is a change after it
    with measured(spark, warehouse(settings)) as cost:
        values = _found(spark, settings, replay, watch, jobs)
        watch("rules")
        values |= {"state": state, "audit": _audit(audited(spark, settings, replay))}
        certificate = Certificate(values)
    save(settings, replay.generation, certificate)
    record_cost(settings, "replay", f"verify generation {replay.generation}", 0, cost)
    return certificate


def save(settings: Settings, generation: int, certificate: Certificate) -> Location:
    """Write the certificate next to the manifest; return the location of the page."""
    where = folder(settings, generation)
    (where / "certificate.json").write(json.dumps(certificate.values, indent=1, default=str))
    pages = Environment(loader=FileSystemLoader(Path(__file__).parent), autoescape=True)
    page = pages.get_template("certificate.html").render(certificate=certificate, **certificate.values)
    (where / "certificate.html").write(page)
    return where / "certificate.html"


def _found(
    spark: SparkSession, settings: Settings, replay: Replay, watch: OnProgress, jobs: list[Job]
) -> dict[str, Any]:
    mine = generation_side(spark, settings, replay.target, f"generation {replay.generation}")
    against: dict[str, dict[str, Explained]] = {}
    served = generation_side(spark, settings, serving(settings), "served")
    against["what is served"] = compared(settings, mine, served, jobs=jobs, watch=watch)
    compared_with: dict[str, int | str | None] = {"what is served": served.generation}
    for module in provided("comparison_side"):
        if other := module.side(spark, settings):
            compared_with[module.TITLE] = other.run
            against[module.TITLE] = compared(settings, mine, other, jobs=jobs, watch=watch)

    def content(name: str) -> dict[str, Any]:
        rows = read(spark, name, settings, replay.generation)
        return {"rows": rows.count(), "hash": content_hash(rows, table_named(name))}

    contents = in_parallel(content, sorted(replay.tables), settings.streaming.parallel_writes)
    entries = [row for row in ledger.entries(settings, ["landing"]) if row["generation"] == replay.generation]
    return {
        "generation": replay.generation,
        "compared_with": compared_with,
        "verified_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "source": replay.source,
        "records": replay.records,
        "fence": {
            f"{topic}/{partition}": end
            for (topic, partition), end in ledger.landed_up_to(settings, "landing", replay.generation).items()
        },
        "logic": {job.name: {"version": job.version, "code": code_version(job)} for job in jobs if job.module},
        "ledger": {term: ledger.total(entries, term) for term in ("input", *ledger.TERMS)},
        "tables": dict(zip(sorted(replay.tables), contents, strict=True)),
        "notes": why_unavailable(jobs, settings, serving(settings)),
        "against": {
            what: {name: _told(explained) for name, explained in found.items()} for what, found in against.items()
        },
    }


def load(settings: Settings, generation: int) -> Certificate | None:
    """Read the certificate of a generation, or return None."""
    values = (folder(settings, generation) / "certificate.json").read_json(f"lakehouse replay verify {generation}")
    return None if values is None else Certificate(values)


def _audit(found: Audit) -> dict[str, Any]:
    broken = [{name: getattr(each, name) for name in ("table", "rule", "rows", "look")} for each in found.failures]
    return {"rules": len(found.findings), "failures": broken}


def _told(explained: Explained) -> dict[str, Any]:
    parity = explained.parity
    rows = []
    # Without a differing row there is no column `reason` to filter by.
    if explained.unexplained:
        rows = explained.rows.filter("reason = 'unexplained'").limit(SAMPLE).collect()
    return {
        "equal": parity.equal,
        "by_reason": explained.by_reason,
        "unexplained": explained.unexplained,
        "hash": parity.left_hash,
        "hash_of_other": parity.right_hash,
        "until": parity.closed_until,
        "sample": [row.asDict(recursive=True) for row in rows],
    }
