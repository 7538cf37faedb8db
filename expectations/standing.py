"""Where the ledger says that records are now: what landing counted, and what was redriven out of quarantine since.

An entry of landing says where the records of a stretch of the log went. An entry of a redrive says how many records of
such a stretch left quarantine (`input`) and where they went, each way counted by itself. So what is to be found in a
table is what landing counted there and what redrives brought, less, in quarantine, what they took.
"""

from typing import Any

from lake.ledger import TERMS, Entry

LANDING, REDRIVE = "landing", "redrive"
Place = tuple[str, int]


def standing(entries: Entry) -> Entry:
    """Give the entries of landing as they stand after every redrive of their stretches."""
    stretches = {stretch(row): dict(row) for row in entries if row["job"] == LANDING}
    for row in entries:
        if row["job"] == REDRIVE and stretch(row) in stretches:
            entry = stretches[stretch(row)]
            entry["quarantined"] -= row["input"]
            for term in TERMS:
                entry[term] += row[term]
    return list(stretches.values())


def by_partition(entries: Entry) -> dict[Place, dict[str, int]]:
    """Add up, for each partition of the log, what stands where, and how far (`until`) that reaches."""
    found: dict[Place, dict[str, int]] = {}
    for row in standing(entries):
        place = found.setdefault((row["topic"], row["partition"]), dict.fromkeys(("until", "input", *TERMS), 0))
        place["until"] = max(place["until"], row["to_offset"])
        for term in ("input", *TERMS):
            place[term] += row[term]
    return found


def stretch(row: dict[str, Any]) -> tuple[str, int, int]:
    """Tell one stretch of the log from every other: no two begin at the same place."""
    return row["topic"], row["partition"], row["from_offset"]
