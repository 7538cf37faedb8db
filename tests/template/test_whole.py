"""Each architecture is whole in itself: style, types, commands, documents and models, without what was left out."""

import ast
import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

from config.settings import ROOT
from tests.template.baking import LEFT_OUT, alone, files_of, run, run_in

pytestmark = pytest.mark.template
each = pytest.mark.parametrize("architecture", sorted(LEFT_OUT))
# `both` is this very project, as another test shows: its style and documents are those checked here.
each_smaller = pytest.mark.parametrize("architecture", ["kappa", "lambda"])
Bake = Callable[..., Path]


@each_smaller
def test_its_style_is_clean(bake: Bake, architecture: str) -> None:
    for check in (("check",), ("format", "--check")):
        done = run_in(bake(architecture), "ruff", *check, "--no-cache", ".")
        assert done.returncode == 0, done.stdout


@pytest.mark.slow
@each
def test_its_types_are_clean(bake: Bake, architecture: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    cache = tmp_path_factory.getbasetemp() / "types"  # shared: most files are the same in each
    if not cache.exists() and (ROOT / ".mypy_cache").exists():
        shutil.copytree(ROOT / ".mypy_cache", cache)
    done = run_in(bake(architecture), "mypy", "--cache-dir", str(cache))
    assert done.returncode == 0, done.stdout


@each_smaller
def test_its_commands_are_those_of_its_features(bake: Bake, architecture: str) -> None:
    done = run_in(bake(architecture), "lakehouse", "--help")
    assert done.returncode == 0, done.stderr
    groups = {"batch": architecture != "kappa", "replay": architecture != "lambda", "stream": True, "new": True}
    found = re.findall(r"^│ ([a-z-]+) ", done.stdout, re.M)
    assert {name: name in found for name in groups} == groups


@each_smaller
def test_its_documents_and_makefile_say_what_is_true(bake: Bake, architecture: str) -> None:
    tests = ("tests/test_docs.py", "tests/test_makefile.py")
    done = run_in(bake(architecture), "pytest", "-q", "-p", "no:cacheprovider", *tests)
    assert done.returncode == 0, done.stdout[-3000:]


@each
def test_no_file_imports_a_module_or_refers_to_a_model_that_is_not_there(bake: Bake, architecture: str) -> None:
    project = bake(architecture)
    models = {Path(name).stem for name in files_of(project) if name.startswith("models/") and name.endswith(".sql")}
    for name in files_of(project):
        text = (project / name).read_text()
        if name.endswith(".py"):
            missing = [
                module for module in imported(text) if is_module(ROOT, module) and not is_module(project, module)
            ]
            assert missing == [], name
        if name.startswith("models/"):
            assert set(re.findall(r"""\bref\(["'](\w+)["']\)""", text)) <= models, name


def imported(text: str) -> set[str]:
    """Name all that a file imports, modules and what is in them."""
    found = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def is_module(root: Path, name: str) -> bool:
    for path in (root / name.replace(".", "/"), root / "tests" / "support" / name.replace(".", "/")):
        if path.with_suffix(".py").is_file() or (path / "__init__.py").is_file():
            return True
    return False


@each
def test_its_dbt_sources_are_its_tables(bake: Bake, architecture: str) -> None:
    project = bake(architecture)
    tables = {path.stem for path in (project / "config" / "tables").glob("[a-z]*.yaml")}
    found = set()
    for file in (project / "models").rglob("*sources.yml"):
        for source in yaml.safe_load(file.read_text())["sources"]:
            found.add(source["name"])
            layer = {"batch": "gold", "gold_generations": "gold"}.get(source["name"], source["name"])
            assert {f"{layer}.{table['name']}" for table in source["tables"]} <= tables
    assert ("batch" in found) == (architecture != "kappa")


@each_smaller
def test_its_dbt_files_are_those_of_its_tables(bake: Bake, architecture: str) -> None:
    done = run_in(bake(architecture), "lakehouse", "dbt", "sync")
    assert (done.returncode, done.stdout.strip()) == (0, "Every file is up to date."), done.stdout + done.stderr


@each_smaller
def test_no_setting_is_left_without_its_feature(bake: Bake, architecture: str) -> None:
    code = "from config.settings import Settings as S; print(*S.model_fields)"
    project = bake(architecture)
    found = run(sys.executable, "-c", code, folder=project, **alone(project)).stdout.split()
    assert ("batch" in found) == (architecture != "kappa")
    assert "streaming" in found
