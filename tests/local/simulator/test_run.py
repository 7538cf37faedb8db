"""Runs into a real log: both modes write the same, and the truth is what is there."""

import io
import threading
from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from config.errors import LakehouseError
from config.kafka import Offsets, end_offsets, ensure_topics, python_options
from config.settings import Settings
from config.terminal import Terminal
from local.simulator import paced, truth
from local.simulator.plan import Plan
from local.simulator.records import Record
from local.simulator.run import simulate
from local.simulator.shop import shard_records, topics_of
from local.simulator.truth import new_truth, read_truth

# A start of its own for each test: the log is shared, and no run goes into it twice.
PLAN: dict[str, Any] = {"seed": 4711, "events": 3_000, "late": 0.05, "duplicates": 0.05, "malformed": 0.05}

Written = dict[tuple[str, int], list[tuple[int, bytes, bytes, list[tuple[str, bytes]]]]]


@pytest.fixture
def log(settings: Settings, broker: object) -> Settings:
    ensure_topics(settings)
    return settings


@pytest.fixture
def console() -> Terminal:
    return Terminal(file=io.StringIO())


def ends(settings: Settings, plan: Plan) -> Offsets:
    return end_offsets(settings, topics_of(plan))


def written(settings: Settings, before: Offsets, after: Offsets) -> Written:
    """Read what came between two ends of the log: by partition, in order."""
    consumer = KafkaConsumer(**python_options(settings), consumer_timeout_ms=20_000, enable_auto_commit=False)
    partitions = [TopicPartition(*partition) for partition, end in after.items() if end > before.get(partition, 0)]
    consumer.assign(partitions)
    for partition in partitions:
        consumer.seek(partition, before.get((partition.topic, partition.partition), 0))
    found, missing = defaultdict(list), sum(after.values()) - sum(before.values())
    while missing:
        record = next(consumer)
        if record.offset < after[record.topic, record.partition]:
            headers = [(key, bytes(value)) for key, value in record.headers]
            found[record.topic, record.partition].append((record.timestamp, record.key, record.value, headers))
            missing -= 1
    consumer.close()
    return dict(found)


def expected(plan: Plan) -> Written:
    """List what a plan must write: by partition, in order."""
    found = defaultdict(list)
    records = [record for shard in range(plan.shards) for record in shard_records(plan, shard)]
    for record in sorted(records, key=lambda record: (record.arrival_ms, record.tie)):
        headers = [("simulator_id", record.id.encode())] if record.label == "malformed" else []
        found[record.topic, record.partition].append((record.arrival_ms, record.key, record.value, headers))
    return dict(found)


@pytest.mark.parametrize("edge", [False, True])
def test_in_bulk_every_record_is_in_its_place_in_the_order_of_arrival(
    log: Settings, spark: object, console: Terminal, edge: bool
) -> None:
    plan = Plan(**PLAN, start=datetime(2025, 3, 1 + edge, tzinfo=UTC), edge=edge)
    before = ends(log, plan)
    simulate(log, plan, console)
    assert written(log, before, ends(log, plan)) == expected(plan)


def test_paced_writes_the_same_records_in_the_same_order(log: Settings, console: Terminal) -> None:
    plan = Plan(**PLAN, start=datetime(2025, 3, 3, tzinfo=UTC), rate=100_000)
    before = ends(log, plan)
    simulate(log, plan, console)
    assert written(log, before, ends(log, plan)) == expected(plan)


def test_several_shards_in_bulk_write_one_truth(log: Settings, spark: object, console: Terminal) -> None:
    plan = Plan(seed=4711, events=60_000, start=datetime(2025, 3, 4, tzinfo=UTC))
    before = ends(log, plan)
    counted = simulate(log, plan, console)
    grown: dict[str, int] = defaultdict(int)
    for partition, end in ends(log, plan).items():
        grown[partition[0]] += end - before.get(partition, 0)
    assert counted.records == grown
    assert sum(sum(types.values()) for types in counted.events.values()) == plan.events
    by_hand = new_truth(plan)
    by_hand.add([record for shard in range(plan.shards) for record in shard_records(plan, shard)])
    assert counted == by_hand
    assert plan.run in read_truth(log).runs


def test_a_run_goes_into_the_log_only_once(log: Settings, console: Terminal) -> None:
    plan = Plan(seed=4711, events=50, start=datetime(2025, 3, 5, tzinfo=UTC), rate=100_000)
    simulate(log, plan, console)
    before = ends(log, plan)
    with pytest.raises(LakehouseError, match="already has"):
        simulate(log, plan, console)
    assert ends(log, plan) == before


def test_stopped_in_the_middle_the_truth_is_what_was_sent(log: Settings) -> None:
    plan = Plan(seed=4711, events=2_000, start=datetime(2025, 3, 6, tzinfo=UTC))
    stop = threading.Event()

    def arriving() -> Iterator[Record]:
        for number, record in enumerate(sorted(shard_records(plan, 0), key=lambda record: record[2:4])):
            if number == 1_234:
                stop.set()
            yield record

    before, counted = ends(log, plan), new_truth(plan)
    paced.send(log, paced.at_rate(arriving(), 100_000, stop), counted, lambda _: None, stop)
    sent = sum(ends(log, plan).values()) - sum(before.values())
    truth.write(log, plan, counted)  # for whoever else looks into this log
    assert sent == sum(counted.records.values()) == 1_234


def test_paced_keeps_to_its_rate(log: Settings, console: Terminal) -> None:
    plan = Plan(seed=4711, events=300, start=datetime(2025, 3, 7, tzinfo=UTC), rate=200)
    begin = datetime.now(UTC)
    counted = simulate(log, plan, console)
    seconds = (datetime.now(UTC) - begin).total_seconds()
    assert seconds >= (sum(counted.records.values()) - 1) / 200


def test_live_records_come_no_sooner_than_they_arrive_and_are_stamped_when_they_do(
    log: Settings, console: Terminal
) -> None:
    begin = datetime.now(UTC)
    plan = Plan(**PLAN | {"events": 300}, start=begin, live=3)
    before = ends(log, plan)
    simulate(log, plan, console)
    over = datetime.now(UTC).timestamp() * 1000
    came = written(log, before, ends(log, plan))
    in_time = {
        partition: [record for record in records if record[0] < plan.end_ms]
        for partition, records in expected(plan).items()
    }
    assert set(came) == {partition for partition, records in in_time.items() if records}
    for partition, records in came.items():
        assert [record[1:] for record in records] == [record[1:] for record in in_time[partition]]
        for (stamp, *_), (planned, *_) in zip(records, in_time[partition], strict=True):
            assert max(planned, begin.timestamp() * 1000) - 1 <= stamp <= over
