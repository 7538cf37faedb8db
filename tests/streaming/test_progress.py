"""Progress: every micro-batch is counted once, and old reports are read only when one was missed."""

from dataclasses import dataclass, field
from typing import Any, cast

from pyspark.sql.streaming.listener import StreamingQueryProgress
from pyspark.sql.streaming.query import StreamingQuery

from config.settings import Settings
from lake.generations import serving
from streaming.job import job_named
from streaming.progress import RunningQuery, last_progress

JOB = job_named("sessions")


def report(batch: int, rows: int, *, executed: bool = True) -> dict[str, Any]:
    """Make a report as Spark gives it, of a micro-batch or of an idle trigger before it."""
    state = {
        "operatorName": "sessionWindowStateStoreSaveExec",
        **dict.fromkeys(("numRowsUpdated", "allUpdatesTimeMs", "numRowsRemoved", "allRemovalsTimeMs"), 0),
        **dict.fromkeys(("commitTimeMs", "numShufflePartitions", "numStateStoreInstances"), 0),
        **{"numRowsTotal": rows, "memoryUsedBytes": 10 * rows, "numRowsDroppedByWatermark": 0},
        "customMetrics": {},
    }
    return {
        **{"id": "00000000-0000-0000-0000-000000000001", "runId": "00000000-0000-0000-0000-000000000002"},
        **{"name": "sessions", "timestamp": f"batch {batch}, {executed}", "batchId": batch, "batchDuration": 2000},
        "durationMs": {"triggerExecution": 2000, **({"addBatch": 1500} if executed else {})},
        "eventTime": {"watermark": f"2026-01-05T12:0{batch % 10}:00.000Z"},
        **{"stateOperators": [state], "sources": [], "numInputRows": rows},
        **{"inputRowsPerSecond": 0.0, "processedRowsPerSecond": 0.0},
        "sink": {"description": "foreachBatch", "numOutputRows": -1, "metrics": {}},
    }


@dataclass
class Query:
    """What a running query reports; `looks` counts how often all of its reports were read."""

    reports: list[dict[str, Any]] = field(default_factory=list)
    report_reads: int = 0
    isActive: bool = True

    @property
    def lastProgress(self) -> StreamingQueryProgress | None:
        return StreamingQueryProgress.fromJson(self.reports[-1]) if self.reports else None

    @property
    def recentProgress(self) -> list[StreamingQueryProgress]:
        self.report_reads += 1
        return [StreamingQueryProgress.fromJson(each) for each in self.reports]


def running_query(settings: Settings) -> tuple[RunningQuery, Query]:
    query = Query()
    return RunningQuery(JOB, cast(StreamingQuery, query), settings, serving(settings)), query


def test_each_batch_is_counted_once_and_old_reports_are_not_read_again(fresh_home: Settings) -> None:
    job, query = running_query(fresh_home)
    job.update()
    for batch in range(7, 12):
        query.reports.append(report(batch, rows=10))
        job.update()
        job.update()
    assert (job.progress().done, job.progress().batch, query.report_reads) == (50, 11, 1)


def test_batches_that_ran_between_two_updates_are_counted(fresh_home: Settings) -> None:
    job, query = running_query(fresh_home)
    query.reports += [report(0, rows=1), report(1, rows=2)]
    job.update()
    query.reports += [report(2, rows=4), report(3, rows=8), report(4, rows=0, executed=False)]
    job.update()
    assert (job.progress().done, job.progress().batch, query.report_reads) == (15, 3, 2)


def test_an_idle_trigger_is_no_batch_and_the_batch_after_it_has_its_number(fresh_home: Settings) -> None:
    job, query = running_query(fresh_home)
    for each in (report(0, 5), report(1, 0, executed=False), report(1, 6), report(2, 0, executed=False)):
        query.reports.append(each)
        job.update()
    assert (job.progress().done, job.progress().batch, query.report_reads) == (11, 1, 1)


def test_what_a_job_last_did_is_kept_for_other_processes(fresh_home: Settings) -> None:
    job, query = running_query(fresh_home)
    query.reports.append(report(3, rows=20))
    job.update()
    kept = last_progress("sessions", fresh_home, 1)
    assert kept == job.progress()
    assert (kept.kept_rows, kept.kept_bytes, kept.rows_per_second) == (20, 200, 10)
    assert kept.watermark == "2026-01-05T12:03:00.000Z"
