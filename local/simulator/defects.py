"""Defects: late, duplicate and malformed records, at the requested shares; the truth lists each."""

import json
from dataclasses import replace
from random import Random
from typing import Any

import numpy as np

from config.declarations import Topic
from local.simulator.clock import DAY, MINUTE, allowance_ms, late_delays, written
from local.simulator.columns import octets, words
from local.simulator.keys import partition_of
from local.simulator.people import TIERS
from local.simulator.records import DUPLICATE, KINDS, LATE, LATE_COPY, MALFORMED, MALFORMED_KINDS, VALID, Draft
from local.simulator.rng import StableRandom

Declared = dict[str, Topic]
Document = dict[str, Any]

# The last one is not valid UTF-8.
_GARBAGE = (b"<html>502 Bad Gateway</html>", b"ERROR: upstream timed out", b"\xff\xfe\x00\x80")
_NEVER = np.iinfo(np.int64).max


def make_late(records: Draft, declared: Declared, share: float, rng: StableRandom) -> Draft:
    """Let a share of the records arrive clearly later than their topic's allowance, if it has one."""
    arrivals, labels = records.arrivals.copy(), records.labels.copy()
    for number, topic in enumerate(declared.values()):
        if allowance_ms(topic) is not None:
            mine = np.flatnonzero(records.topics == number)
            mine = mine[rng.sample(len(mine), share)]
            arrivals[mine] = records.times[mine] + late_delays(topic, rng, len(mine))
            labels[mine] = LATE
    return replace(records, arrivals=arrivals, labels=labels)


def duplicates(records: Draft, declared: Declared, share: float, rng: StableRandom) -> Draft:
    """Duplicate a share of the records, like a producer that retries after a lost response; a copy may be late."""
    n = rng.rounded(share * len(records))
    again = records.take(rng.below(len(records), n))
    allowances = [allowance_ms(topic) for topic in declared.values()]
    limit = np.array([_NEVER if allowance is None else allowance for allowance in allowances])[again.topics]
    case, part = rng.floats(n), rng.floats(n)
    after = np.select(
        [case < 0.75, (case < 0.92) | (limit == _NEVER)],
        [1 + part * 30_000, 30_000 + part * 4 * MINUTE],
        np.where(limit == _NEVER, 0, limit) * (1.05 + 2 * part),
    ).astype(np.int64)
    arrivals = again.arrivals + after
    late = arrivals - again.times > limit
    return replace(again, arrivals=arrivals, labels=np.where(late, LATE_COPY, DUPLICATE))


def malformed(records: Draft, declared: Declared, share: float, random: Random) -> Draft | None:
    """Return malformed versions of a share of the records, each with an id in its header."""
    n = int(share * len(records) + random.random())
    if n == 0:
        return None
    patterns = records.take(np.array(random.choices(range(len(records)), k=n), dtype=np.int64))
    topics = list(declared.values())
    rows = []
    for i, (value, key) in enumerate(zip(patterns.values.to_pylist(), patterns.keys.to_pylist(), strict=True)):
        topic = topics[patterns.topics[i]]
        document = json.loads(value)
        kind = _applicable(MALFORMED_KINDS[int(random.random() * len(MALFORMED_KINDS))], document, topic)
        if kind == "reused_id" and patterns.labels[i] == VALID:
            # Shortly after the event whose id it reuses, so that it is not late if that was not.
            arrival = int(patterns.arrivals[i]) + 50 + int(random.random() * 2_000)
            if random.random() < 0.5:  # both cases: with the same event time, and with another one
                document["event_time"] = written(int(patterns.times[i]) + 1 + random.getrandbits(9))
        else:
            kind = "unknown_type" if kind == "reused_id" else kind
            arrival = int(patterns.times[i]) + int(random.random() * 5_000)
            document["event_id"] = random.randbytes(16).hex()
        partition = patterns.partitions[i]
        if kind == "key_mismatch":
            key = key[:1] + random.randbytes(6).hex().encode()
            partition = partition_of(key, topic.partitions)
        value = _broken(kind, document, arrival, topic, random)
        rows.append((partition, arrival, key, value, random.randbytes(16).hex(), kind))
    partitions, arrivals, keys, values, ids, kinds = zip(*rows, strict=True)
    return replace(
        patterns,
        partitions=np.array(partitions, np.int32),
        arrivals=np.array(arrivals, np.int64),
        keys=octets(keys),
        values=octets(values),
        ids=words(*ids),
        labels=np.full(n, MALFORMED),
        kinds=np.array([KINDS.index(kind) for kind in kinds]),
    )


def _applicable(kind: str, document: Document, topic: Topic) -> str:
    return "missing_field" if kind == "negative_number" and not _numbers(document, topic) else kind


def _broken(kind: str, document: Document, arrival: int, topic: Topic, random: Random) -> bytes:
    """Return the event's bytes, malformed as `kind` says."""
    numbers = _numbers(document, topic)
    match kind:
        case "not_json":
            return _GARBAGE[int(random.random() * len(_GARBAGE))]
        case "truncated":
            whole = _compact(document)
            return whole[: 1 + int(random.random() * (len(whole) - 1))]
        case "empty":
            return b""
        case "missing_field":
            required = topic.events["required"]
            del document[required[int(random.random() * len(required))]]
        case "wrong_type":
            document[numbers[0] if numbers else "event_time"] = {"is": "wrong"}
        case "unknown_type":
            document["type"] = "teleported"
        case "negative_number":
            document[numbers[int(random.random() * len(numbers))]] = -1 - random.getrandbits(10)
        case "unknown_version":
            document["schema_version"] = 99
        case "ahead":
            document["event_time"] = written(arrival + 2 * DAY)
        case "reused_id":
            _change_content(document, numbers)
    return _compact(document)


def _change_content(document: Document, numbers: list[str]) -> None:
    """Change an event's content; it stays valid."""
    if numbers:
        document[numbers[-1]] += 1
    elif "status" in document:
        document["status"] = "cancelled" if document["status"] != "cancelled" else "delivered"
    elif "op" in document:
        row = document["after" if "after" in document else "before"]
        row["tier"] = TIERS[(TIERS.index(row["tier"]) + 1) % len(TIERS)]
    else:
        shown = document["impression_id"]
        document["impression_id"] = shown[:-1] + ("1" if shown[-1] == "0" else "0")


def _numbers(document: Document, topic: Topic) -> list[str]:
    declared = topic.events["properties"]
    return [name for name in document if declared[name]["type"] == "integer" and name != "schema_version"]


def _compact(document: Document) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
