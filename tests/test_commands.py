"""The command line: what a user types wrongly is answered in words, with an exit code."""

import signal
import subprocess
import sys
from dataclasses import dataclass

import pytest

import lakehouse
from config.settings import ROOT, Settings


@dataclass(frozen=True)
class Answer:
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str


@pytest.fixture
def run(fresh_home: Settings, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    """Run the command line in this process, as its entry point does, in a home that nothing has used."""
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "dumb")

    def run(*arguments: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["lakehouse", *arguments])
        with pytest.raises(SystemExit) as end:
            lakehouse.main()
        out, err = capsys.readouterr()
        assert "Traceback" not in out + err
        return Answer(int(end.value.code or 0), out, err)

    return run


def test_help_does_not_wait_for_libraries_that_only_some_commands_need() -> None:
    look = "import sys, lakehouse; lakehouse.build(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", look], cwd=ROOT, text=True, capture_output=True, check=True)
    heavy = {"great_expectations", "pandas", "scipy", "altair", "dbt"}
    assert heavy & set(done.stdout.split()) == set()


def test_help_names_every_command(run) -> None:
    answer = run("--help")
    assert answer.code == 0
    for command in ("broker", "simulate", "stream", "check", "doctor", "sql", "shell", "down", "demo"):
        assert f" {command} " in answer.out


@pytest.mark.parametrize("group", ["broker", "stream"])
def test_a_group_alone_shows_its_commands(run, group: str) -> None:
    answer = run(group)
    assert answer.code in (0, 2)
    assert " status " in answer.out + answer.err


@pytest.mark.parametrize(
    "arguments",
    [["brokr"], ["broker", "strat"], ["sql", "--row", "1"], ["demo", "--events", "few"], ["demo", "--events", "1"]],
)
def test_a_command_or_option_that_does_not_exist_is_named(run, arguments: list[str]) -> None:
    answer = run(*arguments)
    assert answer.code == 2
    assert arguments[-1] in answer.err or arguments[-2] in answer.err


@pytest.mark.parametrize("command", ["run", "reset"])
def test_an_unknown_job_is_named_with_the_nearest(run, fresh_home: Settings, command: str) -> None:
    answer = run("stream", command, "landnig")
    assert (answer.code, answer.out) == (2, "")
    assert "There is no job 'landnig': did you mean 'landing'?" in answer.err
    assert "lakehouse stream list" in answer.err
    assert not fresh_home.home.exists()


def test_an_unknown_check_is_named_with_the_nearest(run) -> None:
    answer = run("check", "legder")
    assert answer.code == 2
    assert "did you mean 'ledger'?" in answer.err


@pytest.mark.parametrize("arguments", [["stream", "run"], ["stream", "status"], ["simulate", "--events", "10"]])
def test_what_needs_a_broker_says_how_to_start_it(run, arguments: list[str]) -> None:
    answer = run(*arguments)
    assert answer.code == 2
    assert "lakehouse broker start" in answer.err


def test_a_mistake_in_the_settings_stops_every_command(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_SPARK__CORES", "none")
    answer = run("broker", "status")
    assert answer.code == 2
    assert "LAKEHOUSE_SPARK__CORES" in answer.err
    assert "valid integer" in answer.err


def test_the_state_of_the_broker_is_an_exit_code(run, broker: object, settings: Settings, monkeypatch) -> None:
    assert (run("broker", "status").code, run("broker", "stop").code) == (1, 0)
    monkeypatch.setenv("LAKEHOUSE_HOME", str(settings.home))
    answer = run("broker", "status")
    assert answer.code == 0
    assert "at 127.0.0.1:" in answer.out


def test_with_an_external_kafka_the_broker_commands_say_so(run, fresh_home: Settings, monkeypatch) -> None:
    monkeypatch.setenv("LAKEHOUSE_KAFKA__SERVERS", "one.example:9092")
    assert [run("broker", command).code for command in ("start", "stop", "status")] == [2, 2, 0]
    assert "external Kafka" in run("broker", "start").err
    assert "one.example:9092" in run("broker", "status").out
    assert "external Kafka" in run("down").out
    assert not fresh_home.home.exists()


def test_jobs_and_tables_are_listed_before_anything_ran(run) -> None:
    answer = run("stream", "list")
    assert answer.code == 0
    assert "landing" in answer.out
    assert run("sql").code == 0


def test_taking_down_what_does_not_run_is_no_error(run) -> None:
    answer = run("down")
    assert answer.code == 0
    assert "Nothing was running" in answer.out


def test_a_table_that_does_not_exist_is_named(run, spark: object) -> None:
    answer = run("sql", "select * from silver.clicsk")
    assert answer.code == 2
    assert "clicsk" in answer.err
    assert "lakehouse sql" in answer.err


# A library that aborts the process at its very end, as Arrow's threads do now and then.
ABORTS = """
import atexit, ctypes, lakehouse
library = ctypes.CDLL(None)
library.__cxa_atexit(library.abort, None, None)
def main():
    print("done")
    atexit.register(print, "stopped")
    raise SystemExit({code})
lakehouse.main = main
lakehouse.{entry}()
"""


@pytest.mark.parametrize(("entry", "code", "ended"), [("run", 0, 0), ("run", 3, 3), ("main", 0, -signal.SIGABRT)])
def test_what_a_library_does_at_the_very_end_changes_no_exit_code(entry: str, code: int, ended: int):
    script = ABORTS.format(entry=entry, code=code)
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stdout.split()) == (ended, ["done", "stopped"]), done.stderr
