"""The ledger's entries against each other, and against the records that were found in the tables."""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import Any

from pyspark.sql import DataFrame

from config.kafka import Offsets
from expectations import offset_words
from expectations.ledger_snapshot import LedgerSnapshot
from lake.ledger import LANDING, REDRIVE, TERMS, Entry, net_of_redrives, offset_range

Place = tuple[str, int]


def faults(
    words: DataFrame, snapshot: LedgerSnapshot, since: Offsets, sums: Mapping[Place, Mapping[str, int]]
) -> list[str]:
    """List what is wrong with the ledger; entries before `since` add up to what was proved, and are not read again.

    Those that begin before and reach beyond it are not compared with the tables.
    """
    recorded = snapshot.entries(since)
    entries = net_of_redrives(recorded)
    return [
        *_redrives_balance(recorded),
        *_losses_count(snapshot.losses),
        *are_disjoint([*entries, *snapshot.losses]),
        *_agree(words, entries, since, sums),
    ]


def _redrives_balance(entries: Entry) -> Iterator[str]:
    """Check the entries of redrives: each record that left quarantine has an outcome, and had been landed."""
    landed = {offset_range(row) for row in entries if row["job"] == LANDING}
    for row in (row for row in entries if row["job"] == REDRIVE):
        name = f"redrive {row['batch']}, {row['topic']}/{row['partition']}"
        outcomes = sum(row[term] for term in TERMS)
        if row["input"] != outcomes:
            yield f"{name}: {row['input']} records left quarantine, {outcomes} have an outcome"
        if offset_range(row) not in landed:
            yield f"{name}: the ledger has no landing batch that starts at offset {row['from_offset']}"


def _losses_count(losses: Entry) -> Iterator[str]:
    for row in losses:
        offsets = row["to_offset"] - row["from_offset"]
        if row["lost"] != offsets:
            yield f"{_name(row)}: the ledger has lost = {row['lost']}, but it is a range of {offsets} offsets"


def are_disjoint(entries: Entry) -> Iterator[str]:
    """Check that no offset is counted by two entries, or by an entry and a loss."""
    for before, after in pairwise(sorted(entries, key=offset_range)):
        if _place(before) == _place(after) and after["from_offset"] < before["to_offset"]:
            yield f"{_name(after)}: {_name(before)} counts offset {after['from_offset']:,} too"


def _agree(words: DataFrame, entries: Entry, since: Offsets, sums: Mapping[Place, Mapping[str, int]]) -> Iterator[str]:
    """Compare the entries with what the tables have, and find records that no entry counts."""
    uncounted = Counter({partition: counts["bronze"] for partition, counts in sums.items()})
    for entry, counted in zip(entries, offset_words.per_entry(words, entries), strict=True):
        uncounted[_place(entry)] -= counted["bronze"]
        if entry["from_offset"] < since.get(_place(entry), 0):
            continue
        outcomes = sum(entry[term] for term in TERMS)
        if entry["input"] != outcomes:
            yield f"{_name(entry)}: {entry['input']} records came in, {outcomes} have an outcome"
        for term in ("input", *TERMS):
            in_tables = counted["bronze" if term == "input" else term]
            if entry[term] != in_tables:
                yield f"{_name(entry)}: the ledger has {term} = {entry[term]}, the tables have {in_tables}"
    for (topic, partition), records in sorted(uncounted.items()):
        if records > 0:
            yield f"{topic}/{partition}: {records:,} records in bronze are counted by no ledger entry"


def _name(entry: Mapping[str, Any]) -> str:
    return f"epoch {entry['epoch']}, batch {entry['batch']}, {entry['topic']}/{entry['partition']}"


def _place(entry: Mapping[str, Any]) -> Place:
    return entry["topic"], entry["partition"]
