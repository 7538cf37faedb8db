"""The documents say what is true: commands, targets, tests, links and names in them exist, and none is left out."""

import inspect
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer

import lakehouse
from config.floors import FLOORS

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
GENERATED = {".venv", ".lakehouse", ".git", ".pytest_cache", ".mypy_cache", ".ruff_cache", ".hypothesis"}
CONCEPTS = {"R": 7, "T": 10, "S": 8, "F": 7, "P": 5, "A": 6, "M": 8}  # feature: origin


@cache
def commands() -> dict[str, Any]:
    """Give every command of the command line by its full name."""
    return dict(_leaves("lakehouse", typer.main.get_command(lakehouse.build())))


def _leaves(name: str, command: Any) -> Iterator[tuple[str, Any]]:
    if not hasattr(command, "commands"):
        yield name, command
        return
    for word, inner in command.commands.items():
        yield from _leaves(f"{name} {word}", inner)


def options(command: Any) -> list[str]:
    shown = (param for param in command.params if not getattr(param, "hidden", False) and "--help" not in param.opts)
    return [param.opts[0] for param in shown if param.opts[0].startswith("--")]


def documents() -> list[Path]:
    return sorted(p for p in ROOT.rglob("*.md") if not GENERATED & set(p.relative_to(ROOT).parts))


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"^ *```{language}\n(.*?)^ *```$", document.read_text(), re.MULTILINE | re.DOTALL)


def sections(document: Path, mark: str) -> dict[str, str]:
    """Give what stands under each heading of a level, by the heading."""
    parts = re.split(rf"^{mark} (.+)$", document.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], parts[1::2], strict=True))


def slug(heading: str) -> str:
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def test_every_command_is_documented_as_it_is():
    documented = sections(DOCS / "commands.md", "###")
    missing = []
    for name, command in commands().items():
        section = " ".join(documented.get(f"`{name}`", "").split())
        help_ = inspect.cleandoc(command.help)
        examples = re.findall(r"^Example: (.+)$", help_, re.MULTILINE) or ["an example, which its help has not either"]
        first = " ".join(help_.split("\n\n")[0].split())
        wanted = [first, *examples, *(f"`{option}`" for option in options(command))]
        missing += [f"{name}: {piece}" for piece in wanted if piece not in section]
    assert not missing


def test_the_documented_defaults_are_those_of_the_options():
    documented = sections(DOCS / "commands.md", "###")
    wrong = []
    for name, command in commands().items():
        shown = dict(re.findall(r"^\| `(--[a-z-]+)` \|(?: (\S*))? \| ", documented[f"`{name}`"], re.MULTILINE))
        for each in (each for each in command.params if each.opts[0] in shown):
            flag = "yes" if each.default else "no"
            value = "" if each.default is None else str(each.default).split()[0]
            wanted = (flag,) if each.is_flag else (value,) if value else ("", "required", "none")
            if shown[each.opts[0]].strip("`") not in wanted:
                wrong.append(f"{name} {each.opts[0]}: {shown[each.opts[0]]!r}, not {wanted}")
    assert wrong == []


def test_no_command_is_documented_that_does_not_exist():
    assert {name.strip("`") for name in sections(DOCS / "commands.md", "###")} == set(commands())


def test_every_make_target_is_documented_as_it_is():
    targets = dict(re.findall(r"^([a-z-]+):.*## (.+)$", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test-all"} <= set(targets)
    row = re.compile(r"^\| `make ([a-z-]+)` \| (.+?)(?: <!-- feature: \w+ -->)? \|$", re.MULTILINE)
    assert dict(row.findall((DOCS / "commands.md").read_text())) == targets


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_to_copy_exist_with_their_options(document: Path):
    for block in blocks(document, "sh"):
        for line in re.findall(r"^ *((?:lakehouse|make) .+)$", block, re.MULTILINE):
            words = shlex.split(line, comments=True)
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE), line
                continue
            named = [name for name in commands() if words[: len(name.split())] == name.split()]
            assert named, f"there is no such command: {line}"
            known = {option for param in commands()[named[0]].params for option in (*param.opts, *param.secondary_opts)}
            assert {word for word in words if word.startswith("--")} <= {*known, "--help"}, line


@pytest.mark.parametrize("document", documents(), ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_leads_somewhere(document: Path):
    text = re.sub(r"^ *```.*?^ *```$", "", document.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        path, _, anchor = target.partition("#")
        file = document.parent / path if path else document
        assert file.exists(), f"{document.relative_to(ROOT)}: {target}"
        if anchor:
            headings = re.findall(r"^#+ (.+)$", file.read_text(), re.MULTILINE)
            assert anchor in [slug(heading) for heading in headings], f"{document.relative_to(ROOT)}: {target}"


# feature: origin
def concept_rows() -> dict[str, str]:
    return dict(re.findall(r"^\| ([A-Z]\d+) \| (.+) \|$", (DOCS / "concepts.md").read_text(), re.MULTILINE))


def test_every_concept_has_its_row():
    assert set(concept_rows()) == {f"{letter}{n + 1}" for letter, count in CONCEPTS.items() for n in range(count)}


def test_every_concept_names_a_test_or_says_planned():
    silent = [name for name, row in concept_rows().items() if "::test_" not in row and "planned" not in row]
    assert not silent


def test_the_tests_and_files_that_concepts_name_exist():
    text = (DOCS / "concepts.md").read_text()
    named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", text)
    assert named and len(named) == text.count("::")
    for file, function in named:
        assert (ROOT / file).is_file(), file
        assert re.search(rf"^def {function}\(", (ROOT / file).read_text(), re.MULTILINE), f"{file}::{function}"
    for path in re.findall(r"`((?:\w+/)[\w./-]*)`", text):
        assert (ROOT / path).exists(), path


# end of feature: origin
def test_every_name_in_the_readme_tree_exists_and_no_folder_is_left_out():
    *_, tree = blocks(ROOT / "README.md", "text")
    names = [line.split()[0] for line in tree.splitlines()]
    for name in names:
        assert (ROOT / name).is_dir() if name.endswith("/") else (ROOT / name).is_file(), name
    folders = {path.name for path in ROOT.iterdir() if path.is_dir() and (path / "__init__.py").exists()}
    assert {f"{folder}/" for folder in folders} <= set(names)


READMES = [file for file in documents() if file.name == "README.md" and file.parent != ROOT]


@pytest.mark.parametrize("document", READMES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_that_the_readme_of_a_folder_names_exists(document: Path):
    named = re.findall(r"`([\w/]+\.(?:py|json|ya?ml|sql))`", document.read_text())
    assert [name for name in named if not any((root / name).is_file() for root in (document.parent, ROOT))] == []


def test_every_file_of_a_walk_through_the_code_exists_and_a_click_takes_at_most_thirty():
    walks = {
        title: re.findall(r"^\d+\. `([^`]+)`", body, re.MULTILINE)
        for title, body in sections(DOCS / "architecture.md", "##").items()
    }
    assert [file for files in walks.values() for file in files if not (ROOT / file).is_file()] == []
    assert 0 < len(walks["A click, from Kafka to a serving view"]) <= 30


def test_the_picture_of_the_floors_has_them_in_their_order():
    picture = blocks(DOCS / "architecture.md", "text")[0]
    assert tuple(re.findall(r"^  (\w+)(?:/|\.py) ", picture, re.MULTILINE)) == FLOORS[::-1]


def test_ci_runs_the_test_command_of_the_readme():
    last = (ROOT / ".ci" / "run").read_text().split("\n")[-2].removeprefix("exec ")
    assert last == "make test"
    assert any(line.split("#")[0].strip() == last for line in blocks(ROOT / "README.md", "sh")[0].splitlines())


def test_every_decision_is_listed_and_says_what_it_costs():
    listed = (DOCS / "decisions" / "README.md").read_text()
    for file in sorted((DOCS / "decisions").glob("0*.md")):
        assert f"]({file.name})" in listed, file.name
        assert list(sections(file, "##")) == ["Context", "Decision", "What it costs"], file.name


EDITED = [document for document in documents() if blocks(document, "diff")]


@pytest.mark.parametrize("document", EDITED, ids=lambda path: path.name)
def test_the_edits_of_a_page_apply_in_their_order(document: Path, tmp_path: Path):
    for folder in ("config", "expectations", "streaming"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for diff in blocks(document, "diff"):
        done = subprocess.run(["git", "apply"], cwd=tmp_path, input=diff, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr


def test_the_edits_of_the_guide_apply_and_are_valid(tmp_path: Path):
    for folder in ("config", "expectations"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for diff in blocks(DOCS / "guides" / "add-a-field.md", "diff"):
        done = subprocess.run(["git", "apply"], cwd=tmp_path, input=diff, text=True, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr
    look = "from config.rules import all_rules as a; print(*(r.name for r in a() if r.table == 'silver.payments'))"
    said = subprocess.run([sys.executable, "-c", look], cwd=tmp_path, text=True, capture_output=True, check=False)
    assert "currency_code" in said.stdout.split(), said.stderr


def test_no_document_names_a_registry_or_a_path_of_a_machine():
    for document in documents():
        assert not re.search(r"/(home|root|tmp|Users)/\w|maven2|pypi\.org|/simple\b", document.read_text()), document
