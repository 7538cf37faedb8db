"""A baked project has exactly the files that it should have, and nothing of this one in them."""

import json
import re
import subprocess
import tomllib
from collections.abc import Callable
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from config.features import features
from config.settings import ROOT
from tests.template.baking import LEFT_OUT, NAMED, files_of, live_files, run, wanted

pytestmark = pytest.mark.template
ARCHITECTURES = sorted(LEFT_OUT)
Bake = Callable[..., Path]


def own_answers() -> dict[str, str]:
    """Give the answers from which this very project would come."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    title = (ROOT / "README.md").read_text().partition("\n")[0].removeprefix("# ")
    return {"project_name": title, "project_slug": project["name"], "description": project["description"]}


def without_origin(text: str) -> str:
    """Take the origin's marked passages out of a text, and all other marks, line by line."""
    mark = re.compile(r"\s*(#|--|<!--|\{#-?) ((?:end of )?feature: |without feature )(\w+)(: .*?)?( -->| -?#\}|$)")
    kept, within = [], False
    piece = re.compile(r"<!-- feature: (\w+) -->(.*?)<!-- end of feature: \1 -->")
    text = piece.sub(lambda found: "" if found[1] == "origin" else found[2], text)
    text = re.sub(r"^<!-- without feature \w+:\n.*?^-->\n", "", text, flags=re.M | re.S)
    for line in text.splitlines(keepends=True):
        found = mark.search(line)
        if found and found[2] == "feature: " and not line[: found.start()].strip():
            within |= found[3] == "origin"
        elif found and found[2] == "end of feature: " and not line[: found.start()].strip():
            within &= found[3] != "origin"
        elif not within and not (found and found[2] == "feature: " and found[3] == "origin"):
            kept.append(mark.sub("", line) if found else line)
    left = "".join(kept)
    return left if left == text else re.sub(r"\n{4,}", "\n\n\n", left).rstrip("\n") + "\n"


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_it_has_exactly_the_files_of_its_architecture(bake: Bake, architecture: str) -> None:
    found = files_of(bake(architecture))
    assert (sorted(found - wanted(architecture)), sorted(wanted(architecture) - found)) == ([], [])


def test_the_architectures_offered_are_those_tested() -> None:
    asked = json.loads((ROOT / "cookiecutter.json").read_text())
    assert sorted(asked["architecture"]) == ARCHITECTURES
    assert len([key for key in asked if not key.startswith("_")]) <= 4


def test_every_pattern_of_a_feature_has_files() -> None:
    for feature, patterns in features().items():
        assert [each for each in patterns if not any(fnmatchcase(file, each) for file in live_files())] == [], feature


def test_features_are_files_and_at_most_four_passages_of_python_files() -> None:
    # More of them would be conditional compilation: a feature is added and left out by its files.
    files = [name for name in live_files() if name.endswith(".py") and not name.startswith("tests/template/")]
    mark = re.compile(r"# (?:feature: |without feature )\w+")
    marks = {name: len(mark.findall((ROOT / name).read_text())) for name in files}
    assert sum(marks.values()) <= 4, {name: count for name, count in marks.items() if count}


def test_each_link_of_the_template_is_copied_and_leads_to_a_live_file() -> None:
    template = ROOT / "{{cookiecutter.project_slug}}"
    links = {path.name for path in template.iterdir() if path.is_symlink()}
    assert links == set(json.loads((ROOT / "cookiecutter.json").read_text())["_copy_without_render"])
    assert [name for name in links if not (template / name).exists()] == []
    assert files_of(template) - links == {"CHANGELOG.md"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_no_folder_is_empty_and_no_brace_and_no_mark_is_left(bake: Bake, architecture: str) -> None:
    project = bake(architecture)
    for path in project.rglob("*"):
        if ".git" in path.relative_to(project).parts:
            continue
        assert path.is_file() or any(path.iterdir()), path
        if path.is_file():
            left = re.search(
                r"\{[{%#][^}]*cookiecutter|\bfeature: (batch|replay|comparison|origin)|without feature",
                path.read_text(),
            )
            assert not left, f"{path}: {left[0]}"


def test_with_our_own_answers_it_is_this_project(bake: Bake) -> None:
    project = bake(**own_answers())
    other = {
        name for name in wanted("both") if (project / name).read_text() != without_origin((ROOT / name).read_text())
    }
    assert other == {"CHANGELOG.md"}


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_with_other_answers_there_is_no_trace_of_this_project(bake: Bake, architecture: str) -> None:
    project, own = bake(architecture), own_answers()
    for name in files_of(project):
        text = (project / name).read_text()
        assert [value for value in own.values() if value in text] == [], name
        assert "docs/benchmarks" not in text, name


def test_the_answers_are_where_a_reader_looks_for_them(bake: Bake) -> None:
    project = bake()
    about = tomllib.loads((project / "pyproject.toml").read_text())["project"]
    assert (about["name"], about["description"], about["version"]) == (
        NAMED["project_slug"],
        NAMED["description"],
        "0.1.0",
    )
    assert (project / "README.md").read_text().startswith(f"# {NAMED['project_name']}\n")
    assert NAMED["description"] in (project / "CHANGELOG.md").read_text()
    assert f"#   {NAMED['project_slug']} (pyproject.toml)" in (project / "requirements.lock").read_text()


def test_its_history_begins_with_one_commit_of_everything(bake: Bake) -> None:
    project = bake()
    assert run("git", "log", "--format=%s", folder=project).stdout == "Start from the template\n"
    assert run("git", "status", "--porcelain", folder=project).stdout == ""
    assert run("git", "branch", "--show-current", folder=project).stdout == "main\n"


def test_scripts_stay_executable(bake: Bake) -> None:
    for name in ("config/setup.sh", ".ci/run"):
        assert (bake() / name).stat().st_mode & 0o111 == (ROOT / name).stat().st_mode & 0o111 != 0


def test_a_replay_file_gives_the_same_project(bake: Bake, tmp_path: Path) -> None:
    answers = tmp_path / "answers.json"
    answers.write_text(json.dumps({"cookiecutter": NAMED | {"architecture": "lambda"}}))
    done = run("cookiecutter", str(ROOT), "--replay-file", str(answers), "-o", str(tmp_path), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    same = ["diff", "-r", "--exclude=.git", str(tmp_path / NAMED["project_slug"]), str(bake("lambda"))]
    assert subprocess.run(same, capture_output=True, text=True, check=False).stdout == ""


def test_without_git_there_is_a_project_all_the_same(tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    python = run("which", "cookiecutter", folder=tmp_path).stdout.strip()
    (tools / "cookiecutter").symlink_to(python)
    done = run(str(tools / "cookiecutter"), str(ROOT), "--no-input", folder=tmp_path, PATH=str(tools))
    assert done.returncode == 0, done.stderr
    assert "no history yet" in done.stdout
    assert (tmp_path / "my-lakehouse" / ".gitignore").is_file()
