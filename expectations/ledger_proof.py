"""The last proof of the ledger check: what it covers, and whether that still holds, so that only the rest is followed.

A proof covers the offsets before `since` of each partition. It still holds if all of this is true:

- the topics are the same, by their ids;
- every commit to a table since then appended rows, or rewrote or removed files without changing rows;
- each table has as many rows as the proof counted before `since` and the check now finds from `since` on: so no row
  with an earlier offset was appended either;
- the ledger's entries for these offsets add up to the same.

A proof does not read the rows again: damage to a Parquet file outside of Delta is found by `--full` only.
"""

import json
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from config.files import reading
from config.kafka import Offsets
from config.settings import Settings
from expectations.ledger_snapshot import LedgerSnapshot, TableVersion
from expectations.offset_words import BITS
from lake.location import Location, storage, table_location

LEAVES_ROWS = {"CREATE TABLE", "ADD COLUMN", "SET TBLPROPERTIES", "OPTIMIZE", "VACUUM START", "VACUUM END"}
Sums = dict[tuple[str, int], dict[str, int]]


@dataclass(frozen=True)
class Proof:
    """What was proved, by partition: rows per term in Kafka and the tables, and the sums of the ledger's entries."""

    proved_at: datetime
    since: Offsets
    rows: Sums
    recorded: Sums
    topic_ids: dict[str, str]
    tables: dict[str, TableVersion]

    def total(self, term: str, topic: str | None = None) -> int:
        """Add up the proved rows of a term, for all topics or one."""
        return sum(counts[term] for (name, _), counts in self.rows.items() if topic in (None, name))


def load(settings: Settings, generation: int) -> Proof | None:
    """Read the last proof of a generation, or return None."""
    file = _file(settings, generation)
    content = file.read_bytes()
    if content is None:
        return None
    with reading(file, "lakehouse check ledger --full   (proves everything again, and writes it)"):
        values = json.loads(content)
        partitions = {(row["topic"], row["partition"]): row for row in values["partitions"]}
        return Proof(
            proved_at=datetime.fromisoformat(values["proved_at"]),
            since={partition: row["since"] for partition, row in partitions.items()},
            rows={partition: row["rows"] for partition, row in partitions.items()},
            recorded={partition: row["recorded"] for partition, row in partitions.items()},
            topic_ids=values["topic_ids"],
            tables={name: TableVersion(**version) for name, version in values["tables"].items()},
        )


def save(snapshot: LedgerSnapshot, rows: Sums) -> None:
    """Record that everything up to the last whole word of the snapshot is proved.

    rows: per partition, the rows of each term before that word.
    """
    since = settled(snapshot)
    recorded = snapshot.sums_before(since)
    partitions: list[dict[str, Any]] = [
        {
            "topic": partition[0],
            "partition": partition[1],
            "since": end,
            "rows": rows[partition],
            "recorded": recorded[partition],
        }
        for partition, end in since.items()
    ]
    values = {
        "proved_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "topic_ids": dict(snapshot.topic_ids),
        "tables": {name: asdict(version) for name, version in snapshot.tables.items()},
        "partitions": partitions,
    }
    _file(snapshot.settings, snapshot.generation).write(json.dumps(values, indent=1))


def settled(snapshot: LedgerSnapshot) -> Offsets:
    """Return, for each partition, the first offset of the word in which landing has ended."""
    return {partition: end // BITS * BITS for partition, end in snapshot.ends.items()}


def broken_by(proof: Proof, snapshot: LedgerSnapshot) -> str | None:
    """Return what has changed since a proof that it does not cover, or None; rows are compared after the check."""
    if any(snapshot.topic_ids.get(name) != id_ for name, id_ in proof.topic_ids.items()):
        return "a topic was created again or is missing"
    if snapshot.sums_before(proof.since) != proof.recorded:
        return "the ledger's entries for records that were proved before have changed"
    for name, before in proof.tables.items():
        location = table_location(snapshot.settings, name, snapshot.generation)
        if change := _changed_by(location, before, snapshot.tables[name]):
            return f"{name} was changed by {change}"
    return None


def _changed_by(location: Location, before: TableVersion, now: TableVersion) -> str | None:
    """Return the operation that changed rows of a table between two versions, or None."""
    if before.id != now.id or before.version > now.version:
        return "replacing it"
    commits = location.table().history(location.table().version() - before.version) if now != before else []
    seen = {commit["version"]: commit for commit in commits}
    for version in range(before.version + 1, now.version + 1):
        if version not in seen:
            return f"commits that Delta no longer lists (from version {version} on)"
        operation, mode = seen[version]["operation"], seen[version].get("operationParameters", {}).get("mode")
        if operation not in LEAVES_ROWS and (operation, mode) != ("WRITE", "Append"):
            return str(operation)
    return None


def _file(settings: Settings, generation: int) -> Location:
    return storage(settings) / "ledger_proofs" / f"g{generation}.json"
