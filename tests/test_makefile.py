"""`make` explains itself, and taking away what is not there is no error."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from config.home import MARKER

ROOT = Path(__file__).resolve().parent.parent
TARGETS = ["setup", "java", "demo", "test", "quick", "test-all", "lint", "types", "format", "bench", "faults", "guides"]
TARGETS += ["mutants", "lock", "down", "clean", "purge"]


def make(*arguments: str, folder: Path = ROOT, **environ: str) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": "/usr/bin:/bin", "HOME": str(folder), **environ}
    return subprocess.run(["make", *arguments], cwd=folder, env=environ, text=True, capture_output=True, check=False)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what set-up reads, in a path with blanks, without .venv."""
    folder = tmp_path / "a b" / "c d"
    shutil.copytree(ROOT / "config", folder / "config")
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        shutil.copy(ROOT / name, folder)
    return folder


def test_make_alone_lists_every_target_with_its_help():
    helped = dict(re.findall(r"^  make ([a-z-]+) +(\S.*)$", make().stdout, re.MULTILINE))
    assert set(helped) >= set(TARGETS)


@pytest.mark.parametrize("target", TARGETS)
def test_each_target_has_a_recipe(target: str):
    done = make("--dry-run", target)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.parametrize("target", ["demo", "test", "test-all", "bench", "faults", "guides"])
def test_what_runs_the_system_sets_it_up_first(target: str):
    assert make("--dry-run", target).stdout.startswith("config/setup.sh everything\n")


@pytest.mark.parametrize(("workers", "command"), [("1", "pytest"), ("3", "pytest -n 3")])
def test_tests_run_in_as_many_processes_as_asked_for(workers: str, command: str):
    assert make("--dry-run", "test", f"WORKERS={workers}").stdout.split("-m ")[-1].strip() == command


def test_the_quick_tests_are_those_that_start_no_jvm_and_need_no_jars():
    done = make("--dry-run", "quick", "WORKERS=1").stdout
    assert done.startswith("config/setup.sh packages\n")
    assert done.split("pytest ")[-1].strip().startswith('-m "not slow and not jvm')


def test_all_tests_are_those_of_every_mark():
    assert make("--dry-run", "test-all", "WORKERS=1").stdout.split("pytest ")[-1].strip() == '-m ""'


@pytest.mark.parametrize(
    ("pages", "workers"), [("1000000", "1"), ("3000000", "2"), ("90000000", "4"), ("undefined; exit 1", "1")]
)
def test_without_being_asked_they_run_on_every_core_that_has_memory(checkout: Path, pages: str, workers: str):
    getconf = checkout / "stub" / "getconf"  # a machine of four cores
    getconf.parent.mkdir()
    answers = f"_NPROCESSORS_ONLN) echo 4 ;; PAGE_SIZE) echo 4096 ;; *) echo {pages} ;;"
    getconf.write_text(f'#!/bin/sh\ncase "$1" in {answers} esac\n')
    getconf.chmod(0o755)
    done = make("--dry-run", "test", folder=checkout, PATH=f"{getconf.parent}:/usr/bin:/bin")
    assert done.stdout.split("-m ")[-1].strip() == ("pytest" if workers == "1" else f"pytest -n {workers}")


@pytest.mark.parametrize("target", ["down", "clean", "purge"])
def test_with_nothing_set_up_there_is_nothing_to_take_away(checkout: Path, target: str):
    done = make(target, folder=checkout)
    assert done.returncode == 0, done.stderr


def test_clean_removes_the_data(checkout: Path):
    (checkout / ".lakehouse" / "warehouse").mkdir(parents=True)
    (checkout / ".lakehouse" / MARKER).touch()
    (checkout / "config" / "__pycache__").mkdir(exist_ok=True)
    assert make("clean", folder=checkout).returncode == 0
    assert not (checkout / ".lakehouse").exists()
    assert not (checkout / "config" / "__pycache__").exists()
    assert (checkout / "config" / "settings.py").exists()


def test_clean_leaves_a_folder_that_is_no_home(checkout: Path):
    photos = checkout / "my photos"
    photos.mkdir()
    (photos / "1.jpg").touch()
    done = make("clean", folder=checkout, LAKEHOUSE_HOME=str(photos))
    assert done.returncode != 0
    assert f"touch '{photos}/{MARKER}' && make clean" in done.stderr
    assert (photos / "1.jpg").exists()
    (photos / MARKER).touch()
    assert make("clean", folder=checkout, LAKEHOUSE_HOME=str(photos)).returncode == 0
    assert not photos.exists()


@pytest.mark.parametrize("home", [".", "..", "/"])
def test_clean_refuses_a_home_that_holds_the_checkout(checkout: Path, home: str):
    stub = checkout / "stub" / "rm"  # in place of the real one, which a failing test would let loose
    stub.parent.mkdir()
    stub.write_text('#!/bin/sh\necho "$@" >> "$(dirname "$0")/called"\n')
    stub.chmod(0o755)
    done = make("clean", folder=checkout, LAKEHOUSE_HOME=home, PATH=f"{stub.parent}:/usr/bin:/bin")
    assert done.returncode != 0
    assert "not removed" in done.stderr
    assert not (stub.parent / "called").exists()


def test_a_python_that_will_not_do_is_named(checkout: Path):
    done = make("packages", folder=checkout, PYTHON="/nowhere/python")
    assert done.returncode != 0
    assert "No Python 3.11, 3.12 or 3.13 was found at PYTHON=/nowhere/python" in done.stderr
    assert not (checkout / ".venv").exists()


def test_a_python_without_venv_is_named_with_the_package(checkout: Path):
    bare = checkout / "bare python"
    bare.write_text('#!/bin/sh\ncase "$2" in *ensurepip*) exit 1 ;; esac\n')
    bare.chmod(0o755)
    done = make("packages", folder=checkout, PYTHON=str(bare))
    assert done.returncode != 0
    assert "apt-get install python3-venv" in done.stderr


def test_no_registry_address_and_no_path_of_a_machine_is_written_down():
    for name in ("requirements.lock", "config/ivy.xml", "config/jars.sha256"):
        assert not re.search(r"https?://|/home/|/root/|/tmp/", (ROOT / name).read_text()), name
