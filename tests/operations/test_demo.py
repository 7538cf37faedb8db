"""The demo: steps are found by their files; a step that fails is named with the command that reruns its part."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.home import MARKER, make_home
from config.settings import Settings, load_settings
from config.terminal import Terminal
from local.background import Status
from local.broker import Broker
from operations.demo import steps as folder
from operations.demo.context import Context
from operations.demo.run import DIFFERS, Demo, demo_home
from operations.demo.step import Step, parts, steps

Run = Callable[[Context], bool]


class NoBroker(Broker):
    """A broker that only remembers whether it runs: most of these tests need no Kafka."""

    def status(self) -> Status:
        """Look at the file that start writes."""
        running = self._pid_file.exists()
        return Status(running, None, None, "running" if running else "not running")

    def start(self, *, reformat: bool = False) -> Status:
        """Remember that it runs."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._pid_file.touch()
        return self.status()

    def stop(self) -> Status:
        """Forget that it ran."""
        before = self.status()
        self._pid_file.unlink(missing_ok=True)
        return before


def no_spark(_: Settings) -> None:
    """Start no Spark: these steps do not use it."""


@pytest.fixture
def home(fresh_home: Settings) -> Settings:
    """The demo's own home, in which something has run."""
    home = demo_home(fresh_home)
    make_home(home)
    Path(home.warehouse).mkdir(parents=True)
    return home


@pytest.fixture
def kafka(home: Settings) -> Iterator[Broker]:
    """The demo's own Kafka, not started yet."""
    broker = Broker(home)
    try:
        yield broker
    finally:
        broker.stop()


@pytest.fixture
def demo(console: Terminal, home: Settings) -> Callable[..., Demo]:
    """Make a demo of other steps, each of them a part, without Kafka and Spark."""

    def demo(kafka: Callable[[Settings], Broker] = NoBroker, **runs: Run) -> Demo:
        found = tuple(Step(part.upper(), part, run) for part, run in runs.items())
        return Demo(console, events=2000, seed=9, steps=found, kafka=kafka, spark=no_spark)  # type: ignore[arg-type]

    return demo


def yes(_: Context) -> bool:
    """Find what was expected."""
    return True


def no(_: Context) -> bool:
    """Find something else."""
    return False


def broken(_: Context) -> bool:
    """Fail as a user's mistake does."""
    raise LakehouseError("The disk is full.", "Free some.")


def bug(_: Context) -> bool:
    """Fail as our own mistake does."""
    raise ZeroDivisionError("one by none")


def test_all_steps_run_in_order_with_kafka_running_and_it_is_stopped_at_the_end(
    demo: Callable[..., Demo], kafka: Broker, console: Terminal
) -> None:
    seen: list[str] = []

    def first(_: Context) -> bool:
        seen.append(f"first, Kafka running: {kafka.status().running}")
        return True

    def second(_: Context) -> bool:
        seen.append(f"second, Kafka running: {kafka.status().running}")
        return True

    assert demo(kafka=Broker, first=first, second=second).run() == 0
    assert seen == ["first, Kafka running: True", "second, Kafka running: True"]
    assert not kafka.status().running
    assert "✓ Every record is accounted for" in console.export_text()


def test_a_folder_of_the_same_name_that_is_no_home_is_not_emptied(demo: Callable[..., Demo], home: Settings) -> None:
    (home.home / MARKER).unlink()
    with pytest.raises(LakehouseError, match="may not be ours"):
        demo(first=yes).run()
    assert Path(home.warehouse).exists()


def test_a_part_alone_has_kafka_while_it_runs_and_names_the_next(
    demo: Callable[..., Demo], kafka: Broker, console: Terminal
) -> None:
    assert demo(kafka=Broker, first=lambda _: kafka.status().running, second=no).run_part("first") == 0
    assert not kafka.status().running
    assert "Next: .venv/bin/lakehouse demo --part second --events 2000 --seed 9" in console.export_text()


def test_a_kafka_that_runs_already_goes_on_running(demo: Callable[..., Demo], home: Settings) -> None:
    NoBroker(home).start()
    assert demo(first=yes).run_part("first") == 0
    assert NoBroker(home).status().running


@pytest.mark.parametrize(
    ("run", "code", "message"),
    [
        (no, DIFFERS, "✗ Part 'second' did not find what it expected: see above."),
        (broken, LakehouseError.exit_code, "✗ The step 'SECOND' failed: see the error above."),
        (bug, 1, "✗ The step 'SECOND' failed: see the error above."),
    ],
)
def test_a_step_that_fails_is_named_with_the_command_that_reruns_it_and_no_later_part_runs(
    demo: Callable[..., Demo], home: Settings, console: Terminal, run: Run, code: int, message: str
) -> None:
    assert demo(first=yes, second=run, third=pytest.fail).run() == code
    lines = console.export_text().splitlines()
    assert lines[-4:] == [
        message,
        "Rerun this part on what the parts before it left (it starts and stops Kafka itself):",
        "  .venv/bin/lakehouse demo --part second --events 2000 --seed 9",
        "Run everything again: .venv/bin/lakehouse demo",
    ]
    assert not NoBroker(home).status().running


def test_an_error_is_shown_before_the_step_that_failed(
    demo: Callable[..., Demo], console: Terminal, capfd: pytest.CaptureFixture[str]
) -> None:
    demo(first=broken).run()
    assert "The disk is full.\nFree some.\n✗ The step 'FIRST' failed" in console.export_text()
    demo(first=bug).run()
    assert "ZeroDivisionError: one by none" in capfd.readouterr().err


def test_a_spark_that_does_not_start_fails_the_first_step_that_needs_it(console: Terminal, home: Settings) -> None:
    def start(_: Settings) -> None:
        raise LakehouseError("There is no Java.")

    needs_it = (Step("FIRST", "first", lambda context: context.spark is not None),)
    demo = Demo(console, events=2000, seed=9, steps=needs_it, kafka=NoBroker, spark=start)  # type: ignore[arg-type]
    assert demo.run() == LakehouseError.exit_code
    assert "There is no Java." in console.export_text()


def test_the_first_part_is_rerun_with_everything(demo: Callable[..., Demo], console: Terminal) -> None:
    assert demo(first=no, second=yes).run() == DIFFERS
    assert "--part" not in console.export_text()


def test_a_part_that_differs_runs_to_its_end(demo: Callable[..., Demo], console: Terminal) -> None:
    ran: list[str] = []

    def two(_: Context) -> bool:
        ran.append("two")
        return True

    same = (Step("ONE", "first", no), Step("TWO", "first", two))
    found = Demo(console, events=2000, seed=9, steps=same, kafka=NoBroker, spark=no_spark)  # type: ignore[arg-type]
    assert found.run_part("first") == DIFFERS
    assert ran == ["two"]
    assert "Next" not in console.export_text()


def test_a_part_that_does_not_exist_is_answered_with_the_nearest(demo: Callable[..., Demo]) -> None:
    with pytest.raises(LakehouseError, match="did you mean 'stream'"):
        demo(stream=yes, batch=yes).run_part("straem")


def test_a_later_part_needs_what_the_parts_before_it_left(fresh_home: Settings, console: Terminal) -> None:
    demo = Demo(console, 2000, 9, (Step("A", "a", yes), Step("B", "b", yes)), NoBroker, no_spark)  # type: ignore[arg-type]
    with pytest.raises(LakehouseError, match="The parts before 'b' have not run yet"):
        demo.run_part("b")


def test_every_file_is_a_step_and_the_steps_of_a_part_follow_each_other() -> None:
    (path,) = folder.__path__
    files = {file.stem for file in Path(path).glob("s*.py")}
    assert len(steps()) == len(files)
    assert len({step.title for step in steps()}) == len(files)
    order = [parts(steps()).index(step.part) for step in steps()]
    assert order == sorted(order)


def test_its_home_is_inside_the_users(fresh_home: Settings) -> None:
    assert demo_home(load_settings()).home.parent == fresh_home.home
