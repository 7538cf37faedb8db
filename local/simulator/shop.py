"""The shop: a plan and a shard's number -> the shard's records, without a clock, a file or a server."""

from dataclasses import replace
from random import Random

import numpy as np
import pyarrow as pa

from config.declarations import Topic, topics
from local.simulator.bots import bot_events
from local.simulator.clock import delays, time_texts
from local.simulator.columns import fixed, hexed, joined, taken, words
from local.simulator.defects import copies, damage, hold_up
from local.simulator.events import Events, Story, story
from local.simulator.keys import places
from local.simulator.people import changes, new_people
from local.simulator.plan import Plan
from local.simulator.records import BOT, Draft, Record, batch, rows, together
from local.simulator.rng import Dice
from local.simulator.visits import visit_times, visits

TIES_PER_SHARD = 1 << 32
# Somewhat less than a person does in a day on average, so that the first guess of how many it takes mostly suffices.
_EVENTS_PER_DAY = 20


def shard_records(plan: Plan, shard: int) -> list[Record]:
    """Give the records of a shard, a row each."""
    return list(rows(shard_batch(plan, shard)))


def shard_batch(plan: Plan, shard: int) -> pa.RecordBatch:
    """Make the records of a shard: exactly its quota of valid events, and the asked shares of defects on top."""
    declared = topics_of(plan)
    names, types = tuple(declared), types_of(declared)
    dice = Dice(plan.seed, plan.start_ms, shard)
    events = _cut(story(_lives(plan, plan.quota(shard), dice), names, types), plan.end_ms, plan.quota(shard))
    valid = hold_up(_minted(events, plan, dice), declared, plan.late, dice)
    drafts = [valid, copies(valid, declared, plan.duplicates, dice)]
    if broken := damage(valid, declared, plan.malformed, Random(f"{plan.seed}/{plan.start_ms}/{shard}")):
        drafts.append(broken)
    if plan.edge:
        # Drawn apart, so that with and without edge the rest is the same.
        dice = Dice(plan.seed, plan.start_ms, shard, "bots")
        bots, kinds = bot_events(plan, dice.rounded(plan.bots * len(valid)), dice)
        minted = _minted(story([bots], names, types), plan, dice)
        drafts.append(replace(minted, labels=np.full(len(minted), BOT), kinds=kinds))
    return batch(together(drafts), shard * TIES_PER_SHARD, names, types)


def topics_of(plan: Plan) -> dict[str, Topic]:
    """Give the topics that a run writes to, by name; the first takes the clicks."""
    clicks = "clicks_raw" if plan.edge else "clicks"
    return {name: topics()[name] for name in (clicks, "orders", "payments", "users")}


def types_of(declared: dict[str, Topic]) -> tuple[str, ...]:
    """List the types of the topics' events."""
    return tuple(kind for topic in declared.values() for kind in topic.types)


def _lives(plan: Plan, quota: int, dice: Dice) -> list[Events]:
    """Tell what people do in the shop, some people at a time, until that is at least `quota` events."""
    clicks = next(iter(topics_of(plan)))
    found: list[Events] = []
    people = told = 0
    while told < quota:
        crowd = new_people(dice, 4 + (quota - told) // (_EVENTS_PER_DAY * plan.days), plan.edge)
        who, begin = visit_times(plan, len(crowd), dice)
        first = np.full(len(crowd), plan.end_ms)
        np.minimum.at(first, who, begin)
        more = changes(crowd, first, plan, dice) + visits(crowd, who, begin, clicks, plan, dice)
        told += sum(int((events.times < plan.end_ms).sum()) for events in more)
        found += [events._replace(owners=events.owners + people) for events in more]
        people += len(crowd)
    return found


def _cut(events: Story, end_ms: int, quota: int) -> Story:
    """Keep `quota` events before the end; of the last person only what came last goes, so that no cause is missing."""
    inside = events.times < end_ms
    upto = np.cumsum(np.bincount(events.owners[inside]))
    last = int(np.searchsorted(upto, quota))
    keep = inside & (events.owners < last)
    of_last = np.flatnonzero(inside & (events.owners == last))
    of_last = of_last[np.argsort(events.times[of_last], kind="stable")]
    keep[of_last[: quota - int(keep.sum())]] = True
    return events.take(np.flatnonzero(keep))


def _minted(events: Story, plan: Plan, dice: Dice) -> Draft:
    """Give each event an id, its form and its place in the log, and let it arrive as its topic's records do."""
    declared = topics_of(plan)
    n = len(events)
    ids = fixed(hexed("", dice.octets(n, 16)))
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
        partitions[mine] = places(events.keys.hashes[mine], topic.partitions)
        arrivals[mine] += delays(topic, dice, len(mine))
    told = events.delays >= 0
    arrivals[told] = events.times[told] + events.delays[told]
    nothing = np.zeros(n, np.int64)
    return Draft(
        topics=events.topics,
        partitions=partitions,
        times=events.times,
        arrivals=arrivals,
        keys=events.keys.text.cast(pa.binary()),
        values=values.cast(pa.binary()),
        types=events.types,
        ids=ids,
        labels=nothing,
        kinds=nothing,
    )
