"""The code version of a job: it changes when code or a declaration changes that the job's results depend on.

It covers the job's definition, every function, class and constant of this project that it uses, directly or
indirectly, and the declarations of its tables. Comments, docstrings, type hints, error texts, descriptions,
unrelated functions and files, and the move of a function to another module do not change it.

Left out on purpose, because a change there cannot change a row or is detected in another way:
- `config`: the values of declarations count, not the code that reads them. Settings are not code.
- `Job`, `Batch` and the code that runs them: the runner, checkpoints, locks, ledger, batch log, failpoints.
- Landing, for a job that reads tables: landed rows stay, and a redrive lands records that a rule refused.
- `provenance`: it explains rows in a comparison and in a trace, and writes none.
- Rules that fail or warn: they decide whether rows are published, not their content.

A checkpoint and the batch layer use this version and no other.
"""

import json
import types
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import partial
from typing import Any

from config import git
from config.declarations import Table, table_named, tables
from config.errors import LakehouseError
from config.settings import ROOT
from lake.location import Location
from streaming.code_graph import WHOLE, Reached, Source, digest, reach
from streaming.job import Job
from streaming.landing.contract import Contract, contracts

# An older name than those in this file: if it changed, existing checkpoints would seem to have no version.
FILE = "logic.json"
LANDING = ("streaming.landing",)
INFRASTRUCTURE = (
    *("config", "lake.batch", "lake.batch_log", "lake.generations", "lake.ledger", "lake.location"),
    "streaming.job",
)
"""Names at which the code graph stops; the reasons are above."""

OURS = Source(ROOT, ignored=frozenset({("Job", "provenance")}))
SHOWN = 5
"""How many changed definitions a message names."""


def code_version(job: Job) -> str:
    """Return the version of a job's code and declarations."""
    return version_of(code_parts(job))


def version_of(parts: Mapping[str, str]) -> str:
    """Digest the parts of a job's code without their names, so that a move to another module changes nothing."""
    return digest(sorted(parts.values()))


def code_parts(job: Job) -> dict[str, str]:
    """Return the code and declarations that a job's results depend on: by name, a digest of the content."""
    stops = INFRASTRUCTURE if job.topics else (*INFRASTRUCTURE, *LANDING)
    roots = {f"{job.module}.job"} if job.module else set()
    found = reach(roots | set(_roots(job, set())), OURS, stops)
    return found.parts | (contract_parts() if job.topics else _declared(job, found))


def parts_of(functions: list[Any], *, stops: tuple[str, ...] = INFRASTRUCTURE) -> dict[str, str]:
    """Return the parts of functions or classes: their code, and the code of everything they use."""
    return reach({root for each in functions for root in _roots(each, set())}, OURS, stops).parts


def contract_parts() -> dict[str, str]:
    """Return the contracts of landing: by topic, its schema, the columns of its table, and the quarantine rules."""
    return {f"contract of {each.topic.name}": digest([_contract(each)]) for each in contracts()}


def ensure_same_code(job: Job, folder: Location, *, allow_code_change: bool = False) -> None:
    """Record the code of a new checkpoint; refuse to continue one that other code started.

    allow_code_change: the user asserts that the changed code gives the same results.
    """
    if not job.module or job.topics:
        return  # landing may change: records that a rule refused can be redriven
    parts = code_parts(job)
    before = recorded(folder)
    if before is not None and before["version"] != job.version:
        raise LakehouseError(
            f"'{job.name}' is version {job.version} now; its table and its state were made by version "
            f"{before['version']}.",
            f"Rebuild its history next to the served table, verify it, then promote it: lakehouse replay run "
            f"--jobs {job.name}",
        )
    if before is not None and before.get("code_version") != version_of(parts) and not allow_code_change:
        raise LakehouseError(
            f"The code of '{job.name}' has changed under its checkpoint, but its version is still {job.version}."
            f"\n{describe_changes(before, parts)}",
            f"If the results differ, raise `version` in {module_path(job.module)} and run: lakehouse "
            f"replay run --jobs {job.name}\n"
            f"If they stay the same: lakehouse stream run {job.name} --allow-code-change",
        )
    now = {"version": job.version, "code_version": version_of(parts), "parts": parts}
    (folder / FILE).write(json.dumps(now | _origin(job, before, now["code_version"])))


def recorded(folder: Location) -> dict[str, Any] | None:
    """Read the code that started a checkpoint; records of older releases have no `code_version`."""
    return (folder / FILE).read_json(f"If the code of the job has not changed since it ran last: rm '{folder / FILE}'")


def module_path(module: str) -> str:
    """Return the file of a module of this project."""
    return f"{module.replace('.', '/')}.py"


def _origin(job: Job, before: Mapping[str, Any] | None, code_version: object) -> dict[str, str | None]:
    """Return the module and the commit from which git can give a job's code again; no commit if it was not committed.

    A change that leaves the code version as it is, as of a comment, keeps the commit that was recorded.
    """
    commit = git.commit_with(module_path(job.module))
    if commit is None and before and before.get("code_version") == code_version and "commit" in before:
        return {"module": before["module"], "commit": before["commit"]}
    return {"module": job.module, "commit": commit}


def describe_changes(before: Mapping[str, Any], now: Mapping[str, str]) -> str:
    """Name the definitions and declarations that changed."""
    if "parts" not in before:
        return "The checkpoint was started by an older release, which did not record every part of the code."
    known = before["parts"]
    names = sorted(name for name in {*known, *now} if known.get(name) != now.get(name))
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"Changed: {', '.join(names[:SHOWN])}{more}."


def _declared(job: Job, code: Reached) -> dict[str, str]:
    """Return the declarations that a job uses: the tables it writes, reads, or names in its code.

    For a table that it only reads, these are the columns that its code names, and the lateness that sets its watermark.
    """
    written = [table_named(name) for name in job.writes]
    read = {name for name in (*job.reads, *code.strings) if name in tables() and name not in job.writes}
    words = code.words | {column for table in written for column in table.stored}
    found = {f"table {table.name}": digest([table_contract(table)]) for table in written}
    return found | {f"table {name}": digest([_columns(table_named(name), words)]) for name in sorted(read)}


def table_contract(table: Table) -> dict[str, Any]:
    """Return the declaration of a table without its descriptions."""
    columns = {name: (column.type, column.source) for name, column in table.columns.items()}
    return table.model_dump(exclude={"description", "columns"}) | {"columns": columns}


def _columns(table: Table, words: set[str]) -> tuple[object, ...]:
    columns = {name: column.type for name, column in table.columns.items() if name in words}
    return sorted(columns.items()), table.valid_to, table.disorder if table.topic or table.lateness_of else None


def _contract(contract: Contract) -> tuple[object, ...]:
    topic, table = contract.topic, contract.table
    rules = [(rule.name, rule.expression) for rule in contract.rules]
    return topic.key, topic.lateness, _undescribed(topic.events), table_contract(table), rules


def _undescribed(schema: Any) -> Any:
    """Remove the descriptions from a JSON Schema; a property may be named `description` too, but is an object."""
    if isinstance(schema, dict):
        return {
            key: _undescribed(value)
            for key, value in schema.items()
            if not (key == "description" and isinstance(value, str))
        }
    return [_undescribed(each) for each in schema] if isinstance(schema, list) else schema


def _roots(value: Any, seen: set[int]) -> Iterator[str]:
    """List the definitions of this project in a value: its functions, their closures and defaults, its classes."""
    if id(value) in seen:
        return
    seen.add(id(value))
    inner: list[Any] = []
    if isinstance(value, types.FunctionType):
        name = value.__qualname__.partition(".")[0]
        yield f"{value.__module__}.{WHOLE if name == '<lambda>' else name}"
        inner = [cell.cell_contents for cell in value.__closure__ or ()] + list(value.__defaults__ or ())
    elif isinstance(value, types.MethodType):
        inner = [value.__func__, value.__self__]
    elif isinstance(value, partial):
        inner = [value.func, *value.args, *value.keywords.values()]
    elif isinstance(value, type):
        yield f"{value.__module__}.{value.__qualname__.partition('.')[0]}"
    elif isinstance(value, Mapping):
        inner = list(value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        inner = list(value)
    elif is_dataclass(value):
        inner = [type(value), *(getattr(value, each.name) for each in fields(value))]
    elif hasattr(value, "__wrapped__"):
        inner = [value.__wrapped__]
    for each in inner:
        yield from _roots(each, seen)
