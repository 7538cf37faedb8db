"""The demo: an act that fails is named, with how it ended and how to tell it again; one act alone has its own Kafka."""

from collections.abc import Callable, Iterator

import pytest
from rich.console import Console

from config.errors import LakehouseError
from config.settings import Settings
from local.broker import Broker
from operations.demo import chapters, story
from operations.demo.chapters import Chapter, Stage

OPTIONS = {"events": 2000, "seed": 9}


@pytest.fixture
def kafka(fresh_home: Settings) -> Iterator[Broker]:
    """The demo's own Kafka, not started yet."""
    broker = Broker(story.demo_home(fresh_home))
    try:
        yield broker
    finally:
        broker.stop()


Tell = Callable[[Stage], bool]


@pytest.fixture
def plot(kafka: Broker, fresh_home: Settings, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Put other chapters in place of the demo's, each an act, in a home in which something was told."""

    def plot(**acts: Tell) -> None:
        monkeypatch.setattr(story, "ACTS", tuple(acts))
        monkeypatch.setattr(story, "CHAPTERS", tuple(Chapter(act, act.upper(), tell) for act, tell in acts.items()))
        story.demo_home(fresh_home).warehouse.mkdir(parents=True)

    return plot


def test_an_act_that_fails_is_named_with_its_exit_and_the_command_that_tells_it_again(
    kafka: Broker, console: Console, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    # In the home that is emptied first, a later act has nothing to go on: its process really fails.
    monkeypatch.setattr(story, "ACTS", (chapters.ACTS[1], "none after it"))
    assert story.run(console, **OPTIONS) == 1
    said = console.export_text()
    assert "The acts before" in capfd.readouterr().err
    act = chapters.ACTS[1]
    assert f"✗ The act '{act}' ended with exit code 2: its error stands above." in said
    assert "What was found" not in said
    assert said.splitlines()[-1] == "All of it anew: .venv/bin/lakehouse demo"
    assert not kafka.status().running


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (1, "✗ The act 'second' ended with exit code 1: its error stands above."),
        (-9, "✗ The act 'second' was ended by signal 9: its error stands above."),
        (story.DIFFERS, "✗ In the act 'second', what was found is not what was generated: see above."),
    ],
)
def test_what_failed_is_told_by_the_exit_code(
    kafka: Broker, console: Console, monkeypatch: pytest.MonkeyPatch, code: int, told: str
) -> None:
    acts: list[str] = []

    def fake(act: str, *_: int) -> int:
        acts.append(act)
        return code if act == "second" else 0

    monkeypatch.setattr(story, "ACTS", ("first", "second", "third"))
    monkeypatch.setattr(story, "_told", fake)
    assert story.run(console, **OPTIONS) == 1
    said = console.export_text()
    assert told in said
    assert "  .venv/bin/lakehouse demo --act second --events 2000 --seed 9\n" in said
    assert acts == ["first", "second"]


def test_the_first_act_is_told_again_with_all_of_it(
    kafka: Broker, console: Console, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(story, "_told", lambda *_: 1)
    assert story.run(console, **OPTIONS) == 1
    assert "--act" not in console.export_text()


def test_an_act_alone_has_kafka_while_it_is_told_and_names_the_next(
    plot: Callable[..., None], kafka: Broker, console: Console
) -> None:
    plot(first=lambda _: kafka.status().running, second=lambda _: kafka.status().running)
    assert story.tell(console, "first", **OPTIONS) == 0
    assert not kafka.status().running
    assert "Next: .venv/bin/lakehouse demo --act second --events 2000 --seed 9" in console.export_text()


def test_an_act_of_the_whole_story_leaves_kafka_to_it(
    plot: Callable[..., None], kafka: Broker, console: Console
) -> None:
    plot(first=lambda _: True, second=lambda _: True)
    kafka.start()
    assert story.tell(console, "first", **OPTIONS) == 0
    assert kafka.status().running
    assert "Next" not in console.export_text()


def test_an_act_that_finds_something_else_says_so_by_its_exit_code_and_is_told_to_its_end(
    plot: Callable[..., None], kafka: Broker, console: Console
) -> None:
    plot(first=lambda _: False, second=lambda _: True)
    assert story.tell(console, "first", **OPTIONS) == story.DIFFERS
    assert "Next" not in console.export_text()


def test_kafka_is_stopped_after_an_act_that_breaks(plot: Callable[..., None], kafka: Broker, console: Console) -> None:
    def broken(_: Stage) -> bool:
        raise LakehouseError("broken")

    plot(first=broken)
    with pytest.raises(LakehouseError, match="broken"):
        story.tell(console, "first", **OPTIONS)
    assert not kafka.status().running


def test_an_act_that_is_not_there_is_told_with_the_nearest(fresh_home: Settings, console: Console) -> None:
    with pytest.raises(LakehouseError, match="did you mean 'stream'"):
        story.tell(console, "straem", **OPTIONS)


def test_the_acts_of_the_story_are_told_one_after_the_other() -> None:
    acts = [chapter.act for chapter in chapters.CHAPTERS]
    assert [act for number, act in enumerate(acts) if act not in acts[:number]] == list(chapters.ACTS)
    assert sorted(acts, key=chapters.ACTS.index) == acts
