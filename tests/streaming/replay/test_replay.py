"""Replay: history made anew from the archive equals the batch layer, is invisible until promoted, and goes back."""

from collections import Counter
from typing import Any

from gold import catch_up, records_of
from handmade import Lake

from batch.run import run as run_batch
from local.simulator.plan import Plan
from operations.views import views
from streaming import generations
from streaming.job import jobs
from streaming.replay import certificate, manifest
from streaming.replay.promotion import rollback
from streaming.replay.run import run
from streaming.tables import read

EVERY = list(jobs().values())
NOTHING: Any = lambda *_: None  # noqa: E731


def plan(seed: int, events: int = 1_500) -> Plan:
    return Plan(seed=seed, events=events, late=0.04, duplicates=0.03, malformed=0.01)


def landed(lake: Lake, seed: int) -> list[tuple[Any, ...]]:
    records = records_of(plan(seed))
    half = len(records) // 2
    lake.land(records[:half])
    lake.land(records[half:])
    return records


def served(lake: Lake, name: str) -> Counter[str]:
    """Read a table as readers do: by its view, which asks the pointer."""
    return Counter(map(repr, lake.spark.sql(views(lake.settings)[name]).collect()))


def test_it_equals_the_batch_layer_is_promoted_and_rolled_back(lake: Lake) -> None:
    landed(lake, 31)
    catch_up(lake)
    assert run_batch(lake.spark, lake.settings, full=True, watch=NOTHING).publication
    before = served(lake, "gold.views_per_minute")
    todo = manifest.new(lake.settings, EVERY, "bronze", "earliest")
    built = run(lake.spark, lake.settings, todo)
    assert served(lake, "gold.views_per_minute") == before
    proof = certificate.verify(lake.spark, lake.settings, built, NOTHING)
    against = proof.values["against"]
    assert {name: each["by_reason"] for name, each in against["the batch layer"].items() if each["by_reason"]} == {}
    assert all(each["equal"] for each in against["the batch layer"].values())
    reasons = {reason for each in against["what is served"].values() for reason in each["by_reason"]}
    assert reasons == {"late"}
    generations.switch(lake.settings, dict.fromkeys(built.tables, 2), "promote")
    after = served(lake, "gold.views_per_minute")
    assert after != before
    assert after == Counter(map(repr, read(lake.spark, "gold.views_per_minute", lake.settings.warehouse, 2).collect()))
    rollback(lake.settings)
    assert served(lake, "gold.views_per_minute") == before
