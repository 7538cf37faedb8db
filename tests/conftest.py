"""One home, one broker and one Spark session for all tests of a process, and the order in which tests run."""

import io
import json
import os
from collections import Counter
from collections.abc import Callable, Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import pytest

from config.home import make_home
from config.java import SHORT_RUN
from config.settings import PREFIX, Settings, load_settings
from config.terminal import Terminal

if TYPE_CHECKING:
    from _pytest.terminal import TerminalReporter
    from handmade import Lake, Log
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from local.broker import Broker

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
Hook = Generator[None, Report, Report]
SKIPS = Path(__file__).parent / "skips.txt"
SECONDS = Path(__file__).parent / "seconds.json"
"""How long the tests of each scope took when they were last recorded, by `make test ARGS=--record-seconds`."""

UNKNOWN_SECONDS = 5.0
SHARED = ("template", "models", "replay")
"""Folders whose tests share a fixture that takes long to build; elsewhere only those of a file share one."""

ALONE = {
    *(f"replay/test_{name}.py" for name in ("audit", "cut", "empty_topics", "hostile", "live", "modes", "reuse_live")),
    *(f"template/test_{name}.py" for name in ("carried", "refusals", "update")),
}
"""Files of these folders that do not use it."""

JVM_FIXTURES = {"spark", "broker", "reader", "built", "dbt_home"}
"""Fixtures that start one, by themselves or by the commands that they run."""

WITHOUT_CODE = ("-Dspark.sql.codegen.wholeStage=false", "-Dspark.sql.codegen.factoryMode=NO_CODEGEN")


@pytest.fixture(scope="session", autouse=True)
def settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Settings]:
    """Settings of a home of the tests' own; whatever the user has configured does not reach the tests."""
    folder = tmp_path_factory.mktemp("lakehouse")
    (folder / "settings.yaml").write_text("spark: {ui: false, cores: 2, memory: 2g}\n")
    with pytest.MonkeyPatch.context() as environ:
        cache = load_settings().cache
        for name in list(os.environ):
            if name.startswith(PREFIX):
                environ.delenv(name)
        environ.setenv("LAKEHOUSE_CONFIG", str(folder / "settings.yaml"))
        environ.setenv("LAKEHOUSE_CACHE", str(cache))
        environ.setenv("LAKEHOUSE_HOME", str(folder / "home"))
        # Tables of a few rows are done before the compilers of Spark and of the JVM pay for themselves.
        environ.setenv("SPARK_SUBMIT_OPTS", " ".join((*SHORT_RUN, *WITHOUT_CODE)))
        make_home(load_settings())
        yield load_settings()


@pytest.fixture(scope="session")
def broker(settings: Settings) -> "Iterator[Broker]":
    """The broker of the tests' home, running, with the declared topics, in which tests set the arrival times."""
    from config.kafka import let_producers_stamp
    from local.broker import Broker

    broker = Broker(settings)
    try:
        broker.start()
        let_producers_stamp(settings)
        yield broker
    finally:
        broker.stop()


@pytest.fixture(scope="session")
def spark(settings: Settings) -> "Iterator[SparkSession]":
    """The one Spark session of the test run."""
    from config.spark import session

    spark = session(settings, "tests")
    yield spark
    spark.stop()


@pytest.fixture
def fresh_home(tmp_path: Path, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """Settings of an empty home, in a path with blanks, that also the commands of this test use."""
    monkeypatch.setenv("LAKEHOUSE_HOME", str(tmp_path / "a fresh home"))
    return load_settings()


@pytest.fixture
def log() -> "Log":
    """An empty log."""
    from handmade import Log

    return Log()


@pytest.fixture
def lake(spark: "SparkSession", fresh_home: Settings) -> "Lake":
    """Empty tables, in a home that also the commands of this test use."""
    from handmade import Lake

    return Lake(spark, fresh_home)


@pytest.fixture
def another_lake(
    spark: "SparkSession", fresh_home: Settings, tmp_path_factory: pytest.TempPathFactory
) -> "Callable[[], Lake]":
    """Make further empty tables to compare with."""
    from handmade import Lake

    return lambda: Lake(spark, fresh_home.at(tmp_path_factory.mktemp("lake")))


@pytest.fixture
def console() -> Terminal:
    """A console to read from: `console.export_text()` gives what was printed since the last time."""
    return Terminal(file=io.StringIO(), record=True, width=240)


def scope(nodeid: str) -> str:
    """Name what a test shares fixtures with: its folder or its file."""
    file = PurePosixPath(nodeid.partition("::")[0].removeprefix("tests/"))
    return str(file.parent) if str(file.parent) in SHARED and str(file) not in ALONE else str(file)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option that records how long each scope takes."""
    parser.addoption("--record-seconds", action="store_true", help="write tests/seconds.json, which orders the tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests that start a JVM; in several processes, run the slowest scopes first."""
    for item in items:
        if JVM_FIXTURES & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.jvm)
    if hasattr(config, "workerinput"):
        seconds: dict[str, float] = json.loads(SECONDS.read_text())
        items.sort(key=lambda item: -seconds.get(scope(item.nodeid), UNKNOWN_SECONDS))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """Give all tests of a scope to the same process, in the order in which they were collected."""
    from xdist.scheduler import LoadScopeScheduling

    class ByScope(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return scope(nodeid)

    config.option.loadscopereorder = False  # by default the scopes with the most tests run first
    return ByScope(config, log)


def pytest_terminal_summary(terminalreporter: "TerminalReporter", config: pytest.Config) -> None:
    """Record how long each scope took, where asked for."""
    if not config.getoption("--record-seconds"):
        return
    taken: Counter[str] = Counter()
    for reports in terminalreporter.stats.values():
        for report in reports:
            if isinstance(report, pytest.TestReport):
                taken[scope(report.nodeid)] += report.duration  # type: ignore[assignment]
    known: dict[str, float] = json.loads(SECONDS.read_text())
    found = known | {name: round(seconds, 1) for name, seconds in taken.items()}
    SECONDS.write_text(json.dumps(dict(sorted(found.items())), indent=1) + "\n")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Hook[pytest.TestReport]:
    """In CI, fail a skipped test whose reason is not listed."""
    return _explained((yield))


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> Hook[pytest.CollectReport]:
    """In CI, fail a skipped file whose reason is not listed."""
    return _explained((yield))


def _explained(report: Report) -> Report:
    if os.environ.get("CI") == "true" and report.skipped and not hasattr(report, "wasxfail"):
        reason = str(report.longrepr[2]).removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        if reason not in SKIPS.read_text().splitlines():
            report.outcome = "failed"
            report.longrepr = f"In CI nothing is skipped without a reason listed in tests/skips.txt: {reason}"
    return report
