"""The shop: a plan and a shard number -> the shard's records; pure: no clock, file or server."""

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa

from config.declarations import Topic, topics
from local.simulator.bots import bot_events
from local.simulator.clock import delays, time_texts
from local.simulator.columns import fixed, hexed, joined, taken, words
from local.simulator.defects import duplicates, make_late, malformed
from local.simulator.events import AllEvents, Events, combined
from local.simulator.keys import partitions_of
from local.simulator.people import changes, new_people
from local.simulator.plan import Plan
from local.simulator.records import BOT, Draft, Record, batch, rows, together
from local.simulator.rng import StableRandom
from local.simulator.visits import visit_times, visits

TIES_PER_SHARD = 1 << 32
# Slightly below a person's average per day, so that the first draw of people is mostly enough.
_EVENTS_PER_DAY = 20


def shard_records(plan: Plan, shard: int) -> list[Record]:
    """Return the records of a shard as rows."""
    return list(rows(shard_batch(plan, shard)))


def shard_batch(plan: Plan, shard: int) -> pa.RecordBatch:
    """Return the records of a shard: exactly its quota of valid events, plus the requested shares of defects."""
    declared = topics_of(plan)
    names, types = tuple(declared), types_of(declared)
    rng = StableRandom(plan.seed, plan.start_ms, shard)
    events = _cut(combined(_activity(plan, plan.quota(shard), rng), names, types), plan.end_ms, plan.quota(shard))
    valid = make_late(_draft(events, plan, rng), declared, plan.late, rng)
    drafts = [valid, duplicates(valid, declared, plan.duplicates, rng)]
    if broken := malformed(valid, declared, plan.malformed, Random(f"{plan.seed}/{plan.start_ms}/{shard}")):
        drafts.append(broken)
    if plan.edge:
        # Drawn separately, so that the other records are the same with and without edge.
        rng = StableRandom(plan.seed, plan.start_ms, shard, "bots")
        bots, kinds = bot_events(plan, rng.rounded(plan.bots * len(valid)), rng)
        of_bots = _draft(combined([bots], names, types), plan, rng)
        drafts.append(replace(of_bots, labels=np.full(len(of_bots), BOT), kinds=kinds))
    return batch(together(drafts), shard * TIES_PER_SHARD, names, types)


def topics_of(plan: Plan) -> dict[str, Topic]:
    """Return the topics that a run writes to, by name; the first one is for clicks."""
    clicks = "clicks_raw" if plan.edge else "clicks"
    return {name: topics()[name] for name in (clicks, "orders", "payments", "users")}


def types_of(declared: dict[str, Topic]) -> tuple[str, ...]:
    """List the event types of the topics."""
    return tuple(kind for topic in declared.values() for kind in topic.types)


def _activity(plan: Plan, quota: int, rng: StableRandom) -> list[Events]:
    """Draw people and their events until there are at least `quota` events."""
    clicks = next(iter(topics_of(plan)))
    found: list[Events] = []
    people = drawn = 0
    while drawn < quota:
        crowd = new_people(rng, 4 + (quota - drawn) // (_EVENTS_PER_DAY * plan.days), plan.edge)
        who, begin = visit_times(plan, len(crowd), rng)
        first = np.full(len(crowd), plan.end_ms)
        np.minimum.at(first, who, begin)
        more = changes(crowd, first, plan, rng) + visits(crowd, who, begin, clicks, plan, rng)
        drawn += sum(int((events.times < plan.end_ms).sum()) for events in more)
        found += [events._replace(owners=events.owners + people) for events in more]
        people += len(crowd)
    return found


def _cut(events: AllEvents, end_ms: int, quota: int) -> AllEvents:
    """Keep `quota` events before the end; drop only the last person's latest events, so that every cause is kept."""
    inside = events.times < end_ms
    upto = np.cumsum(np.bincount(events.owners[inside]))
    last = int(np.searchsorted(upto, quota))
    keep = inside & (events.owners < last)
    of_last = np.flatnonzero(inside & (events.owners == last))
    of_last = of_last[np.argsort(events.times[of_last], kind="stable")]
    keep[of_last[: quota - int(keep.sum())]] = True
    return events.take(np.flatnonzero(keep))


def _draft(events: AllEvents, plan: Plan, rng: StableRandom) -> Draft:
    """Turn events into records: draw their ids, write their JSON, and set partition and arrival time."""
    declared = topics_of(plan)
    n = len(events)
    ids = fixed(hexed("", rng.octets(n, 16)))
    kinds = taken(words(*types_of(declared)), events.types)
    minute, rest = time_texts(events.times, plan.start_ms, plan.end_ms)
    values = joined(
        *('{"event_id":"', ids, '","type":"', kinds, '","event_time":"', minute, rest, '","schema_version":1,'),
        events.payload,
    )
    partitions = np.zeros(n, np.int32)
    arrivals = events.times.copy()
    for number, topic in enumerate(declared.values()):
        mine = np.flatnonzero(events.topics == number)
        partitions[mine] = partitions_of(events.keys.hashes[mine], topic.partitions)
        arrivals[mine] += delays(topic, rng, len(mine))
    fixed_delay = events.delays >= 0
    arrivals[fixed_delay] = events.times[fixed_delay] + events.delays[fixed_delay]
    zeros = np.zeros(n, np.int64)
    return Draft(
        topics=events.topics,
        partitions=partitions,
        times=events.times,
        arrivals=arrivals,
        keys=events.keys.text.cast(pa.binary()),
        values=values.cast(pa.binary()),
        types=events.types,
        ids=ids,
        labels=zeros,
        kinds=zeros,
    )
