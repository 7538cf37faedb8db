"""Jobs in the order in which data flows: each stage reads only what stages before it write."""

from dataclasses import replace
from typing import Any, cast

import pytest

from config.errors import LakehouseError
from lake.batch import Batch
from streaming.job import Job, downstream, in_stages, job_named, jobs


def job(name: str, reads: tuple[str, ...], writes: str) -> Job:
    return Job(name=name, role="enricher", version=1, reads=reads, writes=(writes,), process=lambda _: None)


def names(stages: list[list[Job]]) -> list[list[str]]:
    return [[each.name for each in stage] for stage in stages]


def test_a_job_runs_after_the_one_whose_table_it_reads() -> None:
    third, second = job("third", ("b",), "c"), job("second", ("a",), "b")
    first, other = job("first", ("silver.clicks",), "a"), job("other", ("silver.clicks",), "d")
    assert names(in_stages([third, second, first, other])) == [["first", "other"], ["second"], ["third"]]


def test_a_table_that_no_chosen_job_writes_is_there_already() -> None:
    assert names(in_stages([job("second", ("a",), "b")])) == [["second"]]
    assert in_stages([]) == []


def test_what_depends_on_a_job_comes_after_it() -> None:
    found = [each.name for each in downstream([job_named("clicks_enriched")])]
    assert found[0] == "clicks_enriched"
    assert {"views_per_minute", "trending"} <= set(found)
    assert not {"landing", "order_payments"} & set(found)
    assert [each.name for each in downstream([job_named("order_status")])] == ["order_status"]
    assert len(downstream([job_named("landing")])) == len(jobs())


def test_an_unknown_job_is_named_with_the_nearest() -> None:
    with pytest.raises(LakehouseError, match="did you mean 'sessions'"):
        job_named("sesions")


def test_a_batch_writes_as_another_application_in_each_epoch_and_when_it_closes() -> None:
    live = Batch(rows=cast(Any, None), job="sessions", id=3, epoch=1, generation=2, settings=cast(Any, None))
    assert live.txn_app_id == "sessions/g2/e1"
    assert replace(live, epoch=2).txn_app_id == "sessions/g2/e2"
    assert replace(live, part="close").txn_app_id == "sessions/g2/e1/close"
    assert replace(live, input_generations={"silver.clicks": 1}).generation_of("silver.clicks") == 1
    assert live.generation_of("silver.clicks") == 2
