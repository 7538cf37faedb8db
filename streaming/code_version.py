"""Logic: the version and the code of a job, remembered beside its checkpoint -> a change is never slipped under it.

What a job has in its state and its table was made by some logic. Another logic takes a new version and a replay, so
that all of history is told by one of them. Comments, docstrings and layout are no logic.
"""

import ast
import hashlib
import importlib
import inspect
import json
import types
from pathlib import Path

from config.errors import LakehouseError
from config.files import write_whole
from streaming.job import Job

FILE = "logic.json"


def source(job: Job) -> str:
    """Give a job's own code; kept beside its checkpoint, it can tell later what the old logic made of its inputs."""
    return inspect.getsource(importlib.import_module(job.module))


def previous_job(folder: Path, name: str) -> Job | None:
    """Bring back the job whose code was kept beside a checkpoint, if there is any."""
    kept = recorded(folder)
    if not kept or "source" not in kept:
        return None
    module = types.ModuleType(f"former_{name}")
    exec(compile(str(kept["source"]), f"{name} (former)", "exec"), module.__dict__)  # noqa: S102 - our own code, kept
    job: Job = module.job()
    return job


def code_version(job: Job) -> str:
    """Tell one state of a job's own code from another."""
    tree = ast.parse(source(job))
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.FunctionDef, ast.ClassDef)) and ast.get_docstring(node, clean=False):
            node.body = node.body[1:] or [ast.Pass()]
    return hashlib.sha256(ast.dump(tree).encode()).hexdigest()[:16]


def recorded(folder: Path) -> dict[str, str | int] | None:
    """Read which logic a checkpoint was begun with."""
    file = folder / FILE
    return dict(json.loads(file.read_text())) if file.exists() else None


def ensure_same_code(job: Job, folder: Path, *, allow_code_change: bool = False) -> None:
    """Remember the logic of a new checkpoint, and refuse to go on in one with another logic.

    allow_code_change: whoever changed the code vouches that it gives what the code before gave.
    """
    if not job.module or job.topics:
        return  # rules may change under landing: what they refused can be driven through it again
    now = {"version": job.version, "code": code_version(job), "source": source(job)}
    before = recorded(folder)
    if before is not None and before["version"] != job.version:
        raise LakehouseError(
            f"'{job.name}' is version {job.version} now; its table and its state were made by version "
            f"{before['version']}.",
            f"Make its history anew beside what is served, look at it, then switch: lakehouse replay run "
            f"--jobs {job.name}",
        )
    if before is not None and before["code"] != now["code"] and not allow_code_change:
        raise LakehouseError(
            f"The code of '{job.name}' has changed under its checkpoint, but its version is still {job.version}.",
            f"If it gives other results, raise `version` in {job.module.replace('.', '/')}.py and run: lakehouse "
            f"replay run --jobs {job.name}\nIf it gives the same: lakehouse stream run {job.name} --allow-code-change",
        )
    write_whole(folder / FILE, json.dumps(now))
