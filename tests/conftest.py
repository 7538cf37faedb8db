"""One home, one broker and one Spark session for all tests, far from those of whoever runs them."""

import io
import os
from collections.abc import Callable, Generator, Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, TypeVar

import pytest
from rich.console import Console

from config.java import SHORT_RUN
from config.settings import PREFIX, Settings, load_settings

if TYPE_CHECKING:
    from handmade import Lake, Log
    from pyspark.sql import SparkSession
    from xdist.remote import Producer
    from xdist.scheduler import LoadScopeScheduling

    from local.broker import Broker

Report = TypeVar("Report", pytest.TestReport, pytest.CollectReport)
Hook = Generator[None, Report, Report]
SKIPS = Path(__file__).parent / "skips.txt"
SHARED = ("template", "models", "streaming/replay")
"""Folders whose tests share what takes long to build; elsewhere only those of a file share anything."""

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
        yield load_settings()


@pytest.fixture(scope="session")
def broker(settings: Settings) -> "Iterator[Broker]":
    """The broker of the tests' home, running, with the declared topics."""
    from local.broker import Broker

    broker = Broker(settings)
    try:
        broker.start()
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
def console() -> Console:
    """A console to read from: `console.export_text()` gives what was printed since the last time."""
    return Console(file=io.StringIO(), record=True, width=240, highlight=False)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: "Producer") -> "LoadScopeScheduling":
    """Where tests run in several processes, give to one of them what shares fixtures."""
    from xdist.scheduler import LoadScopeScheduling

    class ByWhatIsShared(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            file = PurePosixPath(nodeid.partition("::")[0]).relative_to("tests")
            return str(file.parent) if str(file.parent) in SHARED else str(file)

    return ByWhatIsShared(config, log)


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
