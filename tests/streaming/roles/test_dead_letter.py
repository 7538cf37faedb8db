"""Dead letters again: what the router can route after a fix goes to `clicks` once; the rest stays, lost bytes too."""

import json
from collections import Counter
from contextlib import closing
from typing import Any

import pytest
from kafka import KafkaProducer, TopicPartition
from kafka.admin import KafkaAdminClient
from raw_clicks import NOON, clicks_since, committed_since, raw, user

from config.errors import LakehouseError
from config.kafka import Offsets, end_offsets, keep_records_of_any_age, python_options
from config.settings import Settings
from local.simulator.people import AGENTS
from streaming.kafka import transactions
from streaming.roles.router import redrive as module
from streaming.roles.router import router
from streaming.roles.router.contract import contract
from streaming.roles.router.redrive import Redriven, redrive

TOPICS = ("clicks_raw", "clicks", "dead_letter")
NOON_MS = int(NOON.timestamp() * 1000)
HOUR_MS = 3_600_000
BOT = "Googlebot/2.1"


def write(settings: Settings, *values: bytes, at_ms: int = NOON_MS) -> None:
    with closing(KafkaProducer(**python_options(settings))) as producer:
        for value in values:
            headers = [("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-01"), ("cookie", b"ada")]
            producer.send("clicks_raw", value, b"edge", headers, 0, at_ms).get(timeout=30)


def click(number: int, **fields: Any) -> bytes:
    return json.dumps(raw(event_id=f"{number:032x}", user_id=user(7), **fields)).encode()


@pytest.fixture
def letters(settings: Settings, broker: object, monkeypatch: pytest.MonkeyPatch) -> tuple[Offsets, Counter[str]]:
    """Dead letters of a router with a bug, which refuses every product; the offsets and what stayed open before them.

    One record after them arrives an hour later and is routed.
    """
    keep_records_of_any_age(settings, ["clicks_raw"])
    router.run(settings, until_caught_up=True)
    open_before = redrive(settings).still
    before = end_offsets(settings, TOPICS)
    write(settings, click(1), b"{not json", click(2, user_agent=BOT), click(3))
    broken = contract()._replace(kept={**contract().kept, "product_id": lambda _: False})
    with monkeypatch.context() as patch:
        patch.setattr(router, "contract", lambda: broken)
        _, counts = router.run(settings, until_caught_up=True)
    assert counts.dead == 4
    write(settings, click(4), at_ms=NOON_MS + HOUR_MS)
    router.run(settings, until_caught_up=True)
    assert ids(clicks_since(settings, before)) == [4]
    return before, open_before


def ids(clicks: dict[int, list[Any]]) -> list[int]:
    return [int(json.loads(click.value)["event_id"], 16) for records in clicks.values() for click in records]


def test_what_can_be_routed_now_arrives_once_after_all_others(
    settings: Settings, letters: tuple[Offsets, Counter[str]]
) -> None:
    before, open_before = letters
    result = redrive(settings)
    assert (result.kept, result.dropped) == (2, {"bot: agent": 1})
    assert result.still - open_before == Counter({"unreadable: not JSON": 1})
    clicks = clicks_since(settings, before)
    assert ids(clicks) == [4, 1, 3]
    for record in clicks[0][1:]:
        assert record.timestamp_ms >= NOON_MS + HOUR_MS
        assert (record.key, [name for name, _ in record.headers]) == (user(7).encode(), ["traceparent"])
        assert next(iter(AGENTS)) not in record.value.decode()
    again = redrive(settings)
    assert again == Redriven(still=result.still, gone=result.gone)
    assert len(clicks_since(settings, before)[0]) == 3
    (written,) = committed_since(settings, before, "dead_letter").values()
    reasons = [json.loads(record.value)["reason"] for record in written[4:]]
    assert reasons == ["redriven: to clicks", "redriven: dropped, bot: agent", "redriven: to clicks"]


@pytest.mark.parametrize("place", ["records written", "offsets written", "committed"])
def test_killed_anywhere_it_sends_each_once(
    settings: Settings, letters: tuple[Offsets, Counter[str]], monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    def die(name: str) -> None:
        if name == f"{module.NAME}: {place}":
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(transactions, "failpoint", die)
        # As after a kill: nothing is aborted or closed in order.
        patch.setattr(transactions.Transactions, "close", lambda _: None)
        with pytest.raises(KeyboardInterrupt):
            redrive(settings)
    redrive(settings)
    assert ids(clicks_since(settings, letters[0])) == [4, 1, 3]


def test_of_two_at_once_the_first_stops(
    settings: Settings, letters: tuple[Offsets, Counter[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    original, second = transactions.Transactions.write, list[bool]()

    def write_second_first(self: Any, *arguments: Any) -> None:
        if not second:
            second.append(True)
            redrive(settings)
        original(self, *arguments)

    monkeypatch.setattr(transactions.Transactions, "write", write_second_first)
    with pytest.raises(LakehouseError, match="was not written"):
        redrive(settings)
    assert ids(clicks_since(settings, letters[0])) == [4, 1, 3]


def test_records_that_are_gone_are_named(settings: Settings, letters: tuple[Offsets, Counter[str]]) -> None:
    before, _ = letters
    first = before["clicks_raw", 0]
    with closing(KafkaAdminClient(**python_options(settings))) as admin:
        admin.delete_records({TopicPartition("clicks_raw", 0): first + 2})
    result = redrive(settings)
    assert {(0, first), (0, first + 1)} <= set(result.gone)
    assert (result.kept, result.dropped) == (1, {"bot: agent": 1})
    assert ids(clicks_since(settings, before)) == [4, 3]


def test_a_record_that_is_another_one_is_gone(settings: Settings, letters: tuple[Offsets, Counter[str]], monkeypatch):
    before, _ = letters
    hashes = {(0, before["clicks_raw", 0]): "0" * 64}
    monkeypatch.setattr(module, "_open_letters", lambda _: (hashes, {TopicPartition("dead_letter", 0): None}))
    assert redrive(settings) == Redriven(gone=list(hashes))
