"""The demo: every step in order, in a home of its own that is emptied first, with a Kafka of its own."""

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from rich.table import Table

from config.errors import LakehouseError
from config.home import empty_home, make_home
from config.java import JVM_OPTIONS, with_short_run
from config.settings import Settings, load_settings, nearest
from config.terminal import Terminal
from lake.location import warehouse
from local.broker import Broker
from local.catalog import Catalog
from operations.demo.context import Context, start_spark
from operations.demo.progress import progress
from operations.demo.step import Step, parts, steps

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DIFFERS = 1
"""Exit code when a step found something else than it expected."""

TRY_NEXT = ('sql "select rules, count(*) from silver.quarantine group by rules"', "trace clicks/0/42")


@dataclass(frozen=True)
class Demo:
    """One run of the demo: its steps, its servers, and how many events it generates from which seed."""

    console: Terminal
    events: int
    seed: int
    steps: tuple[Step, ...]
    kafka: Callable[[Settings], Broker] = Broker
    spark: "Callable[[Settings], SparkSession]" = start_spark

    def run(self) -> int:
        """Run all steps in an empty home; return 0 if each found what it expected."""
        began = time.monotonic()
        make_home(load_settings())
        settings = demo_home(load_settings())
        self.kafka(settings).stop()  # an interrupted demo may have left it running
        Catalog(settings).stop()
        empty_home(settings)
        make_home(settings)
        seconds: dict[Step, float] = {}
        code = self._run(settings, self.steps, seconds)
        if code == 0:
            self._show_end(settings, seconds, time.monotonic() - began)
        return code

    def run_part(self, part: str) -> int:
        """Run the steps of one part on what the parts before it left; return 0 if each found what it expected."""
        known = parts(self.steps)
        if part not in known:
            raise LakehouseError(f"There is no part '{part}': {nearest(part, known)}", "lakehouse demo")
        settings = demo_home(load_settings())
        if part != known[0] and not warehouse(settings).exists():
            raise LakehouseError(f"The parts before '{part}' have not run yet.", "lakehouse demo")
        code = self._run(settings, tuple(step for step in self.steps if step.part == part), {})
        after = known[known.index(part) + 1 :]
        if code == 0 and after:
            self.console.print(f"Next: {self._command(after[0])}")
        return code

    def _run(self, settings: Settings, chosen: tuple[Step, ...], seconds: dict[Step, float]) -> int:
        """Run steps, part by part; after a part in which something differs, or a step that fails, stop."""
        # The JVM's second compiler does not pay for itself within minutes.
        os.environ[JVM_OPTIONS] = with_short_run(os.environ.get(JVM_OPTIONS, ""))
        with ThreadPoolExecutor(1) as pool, self._servers(settings):
            context = Context(self.console, settings, self.events, self.seed, pool.submit(self.spark, settings))
            with progress(self.console, "Starting Kafka and Spark"):
                status = self.kafka(settings).start()
            self.console.print(f"Kafka 4 (KRaft) is {status.note}, at 127.0.0.1:{status.port}.")
            for part in parts(chosen):
                equal = True
                for step in (step for step in chosen if step.part == part):
                    began = time.monotonic()
                    self.console.rule(f"{self.steps.index(step) + 1} · {step.title}")
                    try:
                        equal &= step.run(context)
                    except Exception as error:
                        return self._show_failure(step, error)
                    seconds[step] = time.monotonic() - began
                if not equal:
                    self.console.print(f"✗ Part '{part}' did not find what it expected: see above.", style="red")
                    self._show_rerun(part)
                    return DIFFERS
        return 0

    @contextmanager
    def _servers(self, settings: Settings) -> Iterator[None]:
        """Stop at the end what was not running at the beginning."""
        servers = [each for each in (self.kafka(settings), Catalog(settings)) if not each.status().running]
        try:
            yield
        finally:
            for server in servers:
                server.stop()

    def _show_failure(self, step: Step, error: Exception) -> int:
        """Print an error, the step in which it happened and the command that reruns it; return the exit code."""
        if isinstance(error, LakehouseError):
            self.console.lines(str(error), style="red")
        else:
            Terminal(stderr=True).error(error)
        self.console.print(f"✗ The step '{step.title}' failed: see the error above.", style="red")
        self._show_rerun(step.part)
        return error.exit_code if isinstance(error, LakehouseError) else 1

    def _show_rerun(self, part: str) -> None:
        if part != self.steps[0].part:
            self.console.print("Rerun this part on what the parts before it left (it starts and stops Kafka itself):")
            self.console.print(f"  {self._command(part)}")
        self.console.print("Run everything again: .venv/bin/lakehouse demo")

    def _command(self, part: str) -> str:
        return f".venv/bin/lakehouse demo --part {part} --events {self.events} --seed {self.seed}"

    def _show_end(self, settings: Settings, seconds: dict[Step, float], total: float) -> None:
        table = Table("step", "seconds", title="Where the time went")
        table.columns[1].justify = "right"
        for number, (step, taken) in enumerate(seconds.items(), 1):
            table.add_row(f"{number} · {step.title}", f"{taken:.1f}")
        self.console.print(table)
        self.console.print("✓ Every record is accounted for, id by id.", style="green")
        self.console.print()
        self.console.print(f"Done in {total:.0f} s. Kafka is stopped; the tables stay in {settings.home}.")
        for title, path in {title: path for step in seconds for title, path in step.pages.items()}.items():
            self.console.print(f"{title}: {settings.home / path}")
        self.console.print("Try next:")
        for command in (*(command for step in seconds for command in step.try_next), *TRY_NEXT):
            self.console.print(f"  LAKEHOUSE_HOME='{settings.home}' .venv/bin/lakehouse {command}")


def run(console: Terminal, *, events: int, seed: int, part: str | None = None) -> int:
    """Run the demo, or one part of it; return its exit code."""
    demo = Demo(console, events, seed, steps())
    return demo.run_part(part) if part else demo.run()


def demo_home(settings: Settings) -> Settings:
    """Return the settings of the demo's own home, inside the user's."""
    return settings.at(settings.home / "demo")
