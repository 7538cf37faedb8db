"""The demo: the main job start to end, in a home of its own, number beside number from the truth.

Each act is told by a process of its own, with a Spark of its own: what a path costs is then its own too, and at no time
are there two Sparks in memory.
"""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console

from config.errors import LakehouseError
from config.java import SHORT_RUN
from config.settings import ROOT, Settings, load_settings, nearest
from lake.location import warehouse
from local.broker import Broker
from operations.demo.chapters import ACTS, CHAPTERS, Stage

DIFFERS = 3
"""Exit code of an act that was told to its end, and found something else than was generated."""

TRY_NEXT = (
    "compare --show-rows 3",  # feature: batch
    'sql "select rules, count(*) from silver.quarantine group by rules"',
    "trace clicks/0/42",
)


def run(console: Console, *, events: int, seed: int) -> int:
    """Tell the story; give 0 when everything found is what was generated."""
    started = time.monotonic()
    settings = _own_home()
    console.rule("1 · A real Kafka, on loopback")
    status = Broker(settings).start()
    console.print(f"Kafka 4, KRaft, is {status.note}, at 127.0.0.1:{status.port}.")
    try:
        for act in ACTS:
            code = _told(act, events, seed)
            if code:
                _show_failure(console, act, code, events, seed)
                return 1
    finally:
        Broker(settings).stop()
    console.print("✓ Every record is accounted for, id by id.", style="green")
    console.print(
        f"\nDone in {time.monotonic() - started:.0f} s. Kafka is stopped; the tables stay in {settings.home}."
    )
    console.print(f"The quality checks, as Data Docs: {settings.home / 'reports' / 'data-docs' / 'index.html'}")
    console.print(f"The models, as dbt docs: {settings.home / 'reports' / 'dbt' / 'static_index.html'}")
    # feature: comparison
    from dashboard.report import write as write_report

    console.print(f"The report: {write_report(settings)}")
    # end of feature: comparison
    console.print("Try next:")
    for command in TRY_NEXT:
        console.print(f"  LAKEHOUSE_HOME='{settings.home}' .venv/bin/lakehouse {command}", markup=False)
    return 0


def tell(console: Console, act: str, *, events: int, seed: int) -> int:
    """Tell one act, in this process; give 0 when everything found is what was generated."""
    if act not in ACTS:
        raise LakehouseError(f"There is no act '{act}': {nearest(act, list(ACTS))}", "lakehouse demo")
    settings = demo_home(load_settings())
    if act != ACTS[0] and not warehouse(settings).exists():
        raise LakehouseError(f"The acts before '{act}' were not told yet.", "lakehouse demo")
    stage = Stage(console, settings, events, seed)
    equal = True
    with _broker(settings) as alone:
        for number, chapter in enumerate(CHAPTERS, 2):
            if chapter.act == act:
                console.rule(f"{number} · {chapter.title}")
                equal &= chapter.tell(stage)
    after = ACTS[ACTS.index(act) + 1 :]
    if alone and equal and after:
        console.print(f"Next: {_command(after[0], events, seed)}", markup=False)
    return 0 if equal else DIFFERS


def demo_home(settings: Settings) -> Settings:
    """Give the settings of the demo's own home, inside the user's."""
    return settings.at(settings.home / "demo")


@contextmanager
def _broker(settings: Settings) -> Iterator[bool]:
    """Have Kafka run for an act; if it does not yet, as the act alone was asked for, say so and stop it afterwards."""
    broker = Broker(settings)
    alone = not broker.status().running
    if alone:
        broker.start()
    try:
        yield alone
    finally:
        if alone:
            broker.stop()


def _told(act: str, events: int, seed: int) -> int:
    """Have an act told by a process of its own; give its exit code."""
    command = [sys.executable, "-m", "lakehouse", *_arguments(act, events, seed)]
    options = " ".join((os.environ.get("SPARK_SUBMIT_OPTS", ""), *SHORT_RUN))
    environ = os.environ | {"SPARK_SUBMIT_OPTS": options}
    return subprocess.run(command, cwd=ROOT, env=environ, check=False).returncode


def _show_failure(console: Console, act: str, code: int, events: int, seed: int) -> None:
    """Say which act it was, how it ended, and how to tell it again."""
    if code == DIFFERS:
        console.print(f"✗ In the act '{act}', what was found is not what was generated: see above.", style="red")
    else:
        how = f"was ended by signal {-code}" if code < 0 else f"ended with exit code {code}"
        console.print(f"✗ The act '{act}' {how}: its error stands above.", style="red")
    if act == ACTS[0]:
        console.print("All of it anew: .venv/bin/lakehouse demo", markup=False)
        return
    console.print("That act again, on what those before it left (it starts the demo's Kafka, and stops it):")
    console.print(f"  {_command(act, events, seed)}", markup=False)
    console.print("All of it anew: .venv/bin/lakehouse demo", markup=False)


def _command(act: str, events: int, seed: int) -> str:
    return " ".join((".venv/bin/lakehouse", *_arguments(act, events, seed)))


def _arguments(act: str, events: int, seed: int) -> list[str]:
    return ["demo", "--act", act, "--events", str(events), "--seed", str(seed)]


def _own_home() -> Settings:
    """Empty the demo's own home, and stop what an interrupted demo left running there."""
    settings = demo_home(load_settings())
    Broker(settings).stop()
    shutil.rmtree(settings.home, ignore_errors=True)
    return settings
