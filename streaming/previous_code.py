"""Previous code: the job that made a table, by which a comparison tells changed logic from everything else.

A home records names only, the module and its commit, and never code: what is executed comes from this project, as it is
or, from its git history, as it was.
"""

import ast
import re
import types
from collections.abc import Iterable, Mapping
from typing import Any

from config import git
from config.errors import LakehouseError
from config.settings import Settings
from lake.generations import TableGenerations
from lake.location import Location
from streaming.checkpoint import job_folder
from streaming.code_version import code_version, module_path, recorded
from streaming.job import Job, jobs

MODULE = re.compile(r"[a-z]\w*(\.[a-z]\w*)*")


def previous_job(job: Job, folder: Location) -> Job | None:
    """Load the job that started a checkpoint, if it is of another version; None if it is not or cannot be loaded."""
    saved = _of_another_version(job, folder)
    try:
        return _load(saved, job.name) if saved else None
    except LakehouseError:
        return None  # `why_unavailable` says so


def why_unavailable(chosen: Iterable[Job], settings: Settings, target: TableGenerations) -> list[str]:
    """List the jobs of another version than those that made the tables, and whose previous code cannot be loaded."""
    found = []
    for job in chosen:
        saved = _of_another_version(job, job_folder(job.name, settings, target.of_job(job)))
        try:
            _ = saved and _load(saved, job.name)
        except LakehouseError as error:
            found.append(str(error))
    return found


def _of_another_version(job: Job, folder: Location) -> Mapping[str, Any] | None:
    saved = recorded(folder)
    return saved if saved and saved["version"] != job.version else None


def _load(saved: Mapping[str, Any], name: str) -> Job:
    today = jobs().get(name)
    if today and code_version(today) == saved.get("code_version"):
        return today  # another one is tried out next to it
    module, commit = str(saved.get("module", "")), str(saved.get("commit") or "")
    path = module_path(module) if MODULE.fullmatch(module) else ""
    if not commit or not path:
        raise _unavailable(name, "it was not committed when it ran, or there was no git")
    source = git.file_at(commit, path)
    if source is None:
        raise _unavailable(name, f"the history of this branch has no commit {commit[:12]} with {path}")
    try:
        job = _executed(source, f"{path} at {commit[:12]}")
    except Exception as error:  # of any kind: old code meets today's helpers
        raise _unavailable(name, f"{path} of commit {commit[:12]} fails with today's helpers: {error}") from error
    return job


def _executed(source: str, file: str) -> Job:
    """Execute a module that defines a job, and no other, and return its job."""
    if not any(isinstance(each, ast.FunctionDef) and each.name == "job" for each in ast.parse(source).body):
        raise ValueError("it defines no job")
    module = types.ModuleType("previous_job")
    exec(compile(source, file, "exec"), module.__dict__)  # noqa: S102 - our own, from the history of this project
    job: Job = module.job()
    return job


def _unavailable(name: str, why: str) -> LakehouseError:
    return LakehouseError(
        f"The previous code of '{name}' is not available: {why}. Rows that changed logic explains count as unexplained."
    )
