"""Benchmark of the router: one process and two on the same raw clicks, against kafka-python only copying them."""

import multiprocessing
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing.synchronize import Barrier

from kafka import KafkaAdminClient
from kafka.errors import CoordinatorNotAvailableError, GroupIdNotFoundError
from pyspark.sql import SparkSession

from config.kafka import end_offsets, ensure_topics, keep_records_of_any_age, let_producers_stamp, python_options
from config.settings import Settings
from local.simulator import bulk
from local.simulator.plan import Plan
from streaming.kafka.consumer import PolledBatch, consume
from streaming.kafka.transactions import Message, Transactions, process_id
from streaming.roles.router import router

EVENTS = 200_000


def run(settings: Settings, spark: SparkSession) -> dict[str, float]:
    """Measure records per second from start to end: joining the group and finding the end are included."""
    ensure_topics(settings)
    let_producers_stamp(settings)
    keep_records_of_any_age(settings, [router.SOURCE])
    bulk.Load(settings, spark, Plan(seed=time.time_ns(), events=EVENTS, edge=True)).run()
    return measured(settings)


def measured(settings: Settings) -> dict[str, float]:
    """Measure on the raw clicks that are there."""
    records = sum(end_offsets(settings, [router.SOURCE]).values())
    rates = {
        "copying_only": records / _took(settings, _copy, 1),
        "one_process": records / _took(settings, _route, 1),
        "two_processes": records / _took(settings, _route, 2),
    }
    return {
        "records": records,
        **{f"{name}_records_per_second": round(rate) for name, rate in rates.items()},
        "routing_against_copying": round(rates["one_process"] / rates["copying_only"], 2),
        "two_processes_against_one": round(rates["two_processes"] / rates["one_process"], 2),
    }


def _took(settings: Settings, work: Callable[[Settings], None], processes: int) -> float:
    there_is_none = suppress(CoordinatorNotAvailableError, GroupIdNotFoundError)
    with closing(KafkaAdminClient(**python_options(settings))) as admin, there_is_none:
        admin.delete_groups([router.NAME])  # so that it reads all again
    context = multiprocessing.get_context("spawn")
    ready = context.Barrier(processes + 1)
    workers = [context.Process(target=_when_ready, args=(work, settings, ready)) for _ in range(processes)]
    for worker in workers:
        worker.start()
    ready.wait()
    begin = time.perf_counter()
    for worker in workers:
        worker.join()
    assert not any(worker.exitcode for worker in workers)
    return time.perf_counter() - begin


def _when_ready(work: Callable[[Settings], None], settings: Settings, ready: Barrier) -> None:
    ready.wait()  # the start of a process is not measured
    work(settings)


def _route(settings: Settings) -> None:
    router.run(settings, until_caught_up=True)


def _copy(settings: Settings) -> None:
    """Copy the raw clicks in transactions of the same size: what kafka-python takes for itself."""
    with process_id(settings, router.NAME) as id_, closing(Transactions(settings, router.NAME, id_)) as transactions:

        def copy(batch: PolledBatch) -> None:
            transactions.write(_copies(batch), batch.offsets, batch.member)

        consume(settings, router.group(settings), copy, until_caught_up=True)


def _copies(batch: PolledBatch) -> Iterator[Message]:
    for place, records in batch.records.items():
        for record in records:
            yield Message(router.CLEAN, place.partition, record.key, record.value, [], record.timestamp)
