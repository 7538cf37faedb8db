"""The truth: counted and named from the records, kept by the run."""

import json
from collections import Counter
from pathlib import Path

import pytest

from config.errors import LakehouseError
from config.settings import Settings, load_settings
from local.simulator import truth
from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.shop import shard_batch
from local.simulator.truth import Truth


@pytest.fixture
def home(tmp_path: Path) -> Settings:
    return load_settings().model_copy(update={"home": tmp_path})


def truth_of(plan: Plan, shards: int | None = None) -> Truth:
    whole = truth.new_truth(plan)
    for shard in range(plan.shards if shards is None else shards):
        part = Truth()
        part.add_batch(shard_batch(plan, shard))
        whole.merge(part)
    return whole


@pytest.fixture(scope="module")
def whole(plan: Plan) -> Truth:
    return truth_of(plan)


def test_it_counts_and_names_what_the_records_are(whole: Truth, records: list[Record]) -> None:
    assert whole.records == Counter(record.topic for record in records)
    for topic, types in whole.events.items():
        firsts = [r for r in records if r.topic == topic and r.label in ("valid", "late")]
        assert types == Counter(record.type for record in firsts)
    views = [r for r in records if r.topic == "clicks" and r.type == "page_view" and r.label in ("valid", "late")]
    assert whole.views == Counter(f"{json.loads(view.value)['event_time'][:13]}:00" for view in views)
    for topic in whole.records:
        mine = [record for record in records if record.topic == topic]
        ids = {label: Counter(r.id for r in mine if r.label == label) for label in {r.label for r in mine}}
        assert Counter(whole.late.get(topic, [])) == ids.get("late", Counter()) + ids.get("late_copy", Counter())
        assert Counter(whole.duplicates[topic]) == ids["duplicate"]
        assert whole.malformed[topic] == {r.id: r.kind for r in mine if r.label == "malformed"}


def test_every_record_is_accounted_for(whole: Truth) -> None:
    for topic, records in whole.records.items():
        late, duplicates = len(whole.late.get(topic, [])), len(whole.duplicates[topic])
        assert records == whole.accepted(topic) + late + duplicates + len(whole.malformed[topic])


def test_row_by_row_it_is_the_same(plan: Plan, records: list[Record], whole: Truth) -> None:
    slowly = truth.new_truth(plan)
    slowly.add(records)
    assert slowly == whole


def test_bots_are_named_with_what_betrays_them(edge_records: list[Record]) -> None:
    found = Truth()
    found.add(edge_records)
    bots = [record for record in edge_records if record.label == "bot"]
    assert found.bots == {"clicks_raw": {bot.id: bot.kind for bot in bots}}
    assert found.bot_users == sorted({bot.key.decode() for bot in bots})


def test_the_truths_of_all_runs_are_read_as_one(home: Settings) -> None:
    plans = [Plan(seed=seed, events=1_000) for seed in (1, 2)]
    for plan in plans:
        truth.begin(home, plan)
        truth.write(home, plan, truth_of(plan))
    together = truth.read_truth(home)
    assert together.runs == [plan.run for plan in plans]
    assert sum(sum(types.values()) for types in together.events.values()) == 2_000
    assert together.late["clicks"] == truth_of(plans[0]).late["clicks"] + truth_of(plans[1]).late["clicks"]


def test_the_same_run_is_refused_a_second_time(home: Settings) -> None:
    plan = Plan(events=100)
    truth.begin(home, plan)
    truth.write(home, plan, truth_of(plan))
    with pytest.raises(LakehouseError, match="--seed 8"):
        truth.refuse_again(home, plan, log_is_empty=False)
    truth.refuse_again(home, Plan(seed=8, events=100), log_is_empty=False)


def test_a_run_that_was_broken_off_has_no_truth(home: Settings) -> None:
    truth.begin(home, Plan())
    with pytest.raises(LakehouseError, match="was interrupted"):
        truth.read_truth(home)
    with pytest.raises(LakehouseError, match="a part of"):
        truth.refuse_again(home, Plan(), log_is_empty=False)


def test_truths_of_a_log_that_was_emptied_are_put_aside(home: Settings) -> None:
    plan = Plan(events=100)
    truth.begin(home, plan)
    truth.write(home, plan, truth_of(plan))
    truth.refuse_again(home, plan, log_is_empty=True)
    assert truth.read_truth(home).records == {}
