"""History: a job that starts on tables with rows is computed in one pass, and goes on as if it had streamed them."""

from functools import partial

import pytest
from aging import age
from gold import catch_up, differences, followers, records_of
from handmade import Lake

from config.errors import LakehouseError
from lake import batch_log, tables
from local.simulator.plan import Plan
from streaming import history, start
from streaming.checkpoint import last_checkpoint
from streaming.job import job_named

INTERRUPTED = ("clicks_enriched", "views_per_minute", "sessions")
"""A job without state, one that updates its rows, and one that writes them when they are final."""

LANDING = {f"after {name}" for name in job_named("landing").writes}
"""The commits of landing, which is not interrupted here."""

from_history = partial(catch_up, from_first=False)


def test_history_is_computed_on_aged_and_compacted_tables_and_the_stream_goes_on_from_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    records = records_of(Plan(seed=21, events=3_000, late=0.03, duplicates=0.03, malformed=0.01))
    half = len(records) // 2
    for low, high in ((0, half // 3), (half // 3, half // 2)):
        lake.land(records[low:high])
    age(lake.settings)
    not_landed = [records[half // 2 : half]]
    broken_off: set[str] = set()

    def die_once(place: str) -> None:
        if place not in broken_off and place not in LANDING:
            broken_off.add(place)
            raise OSError(place)

    # Interrupted after the commit of its history, and after each commit of the batches that read the tail.
    for name in INTERRUPTED:
        broken_off.discard("after ops.batches")
        with monkeypatch.context() as patch:
            for module in (tables, batch_log, history):
                patch.setattr(module, "failpoint", die_once)
            for _ in range(4):
                try:
                    from_history(lake, [name])
                    break
                except (LakehouseError, OSError) as error:
                    assert "after" in str(error)
                    if not_landed:  # these arrive between an interrupted start and the one that repeats it
                        lake.land(not_landed.pop())
    assert {f"after history of {job_named(name).writes[0]}" for name in INTERRUPTED} <= broken_off
    from_history(lake)
    assert differences(lake, records[:half]) == {}
    for job in followers():
        begun = started(lake, job.name)
        assert begun.history == "complete"
        assert (begun.tail_from is not None) == (job.query.transform is not None)

    # Live, in two pieces; nothing is dropped, or the job would refuse to continue.
    for low, high in ((half, half + half // 2), (half + half // 2, len(records))):
        lake.land(records[low:high])
        from_history(lake)
    assert differences(lake, records) == {}


def started(lake: Lake, job: str) -> start.Start:
    checkpoint = last_checkpoint(job_named(job), lake.settings)
    begun = start.load(checkpoint.job_folder, checkpoint.epoch)
    assert begun is not None
    return begun
