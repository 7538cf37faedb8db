"""A run of the simulator, bulk or paced: create topics, write records, write the truth."""

import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from datetime import UTC, datetime

from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from config.errors import LakehouseError
from config.kafka import Offsets, end_offsets, ensure_topics, keep_records_of_any_age, let_producers_stamp
from config.settings import Settings
from config.spark import session
from config.terminal import Terminal
from config.waiting import waiting_for_kafka
from local.simulator import arrivals, bulk, paced, truth
from local.simulator.plan import Plan
from local.simulator.shop import topics_of
from local.simulator.truth import Truth

_POLL_SECONDS = 1.0


def simulate(settings: Settings, plan: Plan, console: Terminal) -> Truth:
    """Write a plan's records to Kafka (in bulk, at its rate or in real time) and their truth to the home."""
    if not plan.live and plan.end > datetime.now(UTC):
        raise LakehouseError(
            f"The run would end at {plan.end:%Y-%m-%d %H:%M}, ahead of the clock: landing would quarantine it.",
            f"Start earlier: --start {datetime.now(UTC) - plan.length:%Y-%m-%d}",
        )
    ensure_topics(settings)
    let_producers_stamp(settings)
    names = list(topics_of(plan))
    if plan.live is None:
        keep_records_of_any_age(settings, names)
    before = end_offsets(settings, names)
    truth.refuse_again(settings, plan, log_is_empty=not any(before.values()))
    spark = None if plan.rate or plan.live else session(settings, "simulate")
    truth.begin(settings, plan)
    try:
        with _progress(console) as progress:
            written = _bulk(settings, spark, plan, progress) if spark else _paced(settings, plan, progress)
    except BaseException as error:
        if _nothing_written(settings, names, before):
            truth.forget(settings, plan)
        else:
            console.print("Interrupted: a part of the run may be in Kafka, and there is no truth file for it.")
        if isinstance(error, PySparkException):
            cause = str(error).strip().splitlines()[0]
            raise LakehouseError(f"Spark did not write all records: {cause}", "lakehouse broker status") from error
        raise
    _check_written(written, before, end_offsets(settings, names))
    truth.write(settings, plan, written)
    return written


def _nothing_written(settings: Settings, names: list[str], before: Offsets) -> bool:
    """Return whether Kafka says that a run has written nothing; if Kafka is away, that is not known."""
    try:
        return end_offsets(settings, names) == before
    except LakehouseError:
        return False


def _bulk(settings: Settings, spark: SparkSession, plan: Plan, progress: Progress) -> Truth:
    names = list(topics_of(plan))
    before = sum(end_offsets(settings, names).values())
    generating = progress.add_task("Generating", total=plan.shards, unit="shards")
    writing = progress.add_task("Writing", total=None, unit="records")
    load = bulk.Load(settings, spark, plan)
    with ThreadPoolExecutor(1) as pool:
        job = pool.submit(load.run)
        try:
            while not wait([job], _POLL_SECONDS).done:
                progress.update(generating, completed=load.shards_done)
                if load.shards_done == plan.shards:
                    total = sum(load.truth.records.values())
                    completed = sum(end_offsets(settings, names).values()) - before
                    progress.update(writing, total=total, completed=completed)
        except BaseException:
            load.cancel()
            raise
        written = job.result()
    total = sum(written.records.values())
    progress.update(generating, completed=plan.shards)
    progress.update(writing, total=total, completed=total)
    return written


def _paced(settings: Settings, plan: Plan, progress: Progress) -> Truth:
    sent = truth.new_truth(plan)
    generating = progress.add_task("Generating", total=plan.shards, unit="shards")
    sending = progress.add_task("Sending", total=0, unit="records")
    generated = 0

    def done(records: int) -> None:
        nonlocal generated
        if stop.is_set():
            raise KeyboardInterrupt
        generated += records
        progress.update(generating, advance=1)
        progress.update(sending, total=generated)

    def waiting(since: datetime | None) -> None:
        progress.console.print(f"simulate: {waiting_for_kafka(since) if since else 'Kafka answers again'}")

    with _stop_on_signal() as stop, arrivals.in_arrival_order(plan, settings.home / "tmp", done) as records:
        timed = (
            paced.at_rate(records, plan.rate, stop) if plan.rate else paced.as_they_arrive(records, plan.end_ms, stop)
        )
        paced.send(settings, timed, sent, lambda n: progress.update(sending, advance=n), stop, waiting)
    sent.stopped = stop.is_set()
    return sent


@contextmanager
def _stop_on_signal() -> Iterator[threading.Event]:
    """Let Ctrl-C stop between two records: an exception could interrupt after a send, before the record is counted."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    previous = {number: signal.signal(number, lambda *_: stop.set()) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)


def _check_written(written: Truth, before: Offsets, after: Offsets) -> None:
    for topic, records in written.records.items():
        grown = sum(end - before.get(key, 0) for key, end in after.items() if key[0] == topic)
        if grown < records:
            raise LakehouseError(
                f"{records:,} records were written to {topic}, but it has grown by only {grown:,}.",
                "Check the broker's log file; then start with an empty topic log: lakehouse broker start --reformat",
            )


def _progress(console: Terminal) -> Progress:
    return Progress(
        TextColumn("{task.description:<10}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
        console=console,
    )
