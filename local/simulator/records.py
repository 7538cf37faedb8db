"""Kafka records in three forms: columns while they are built, Arrow batches when complete, rows for readers."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from local.simulator.columns import Text, column, taken, words
from local.simulator.rng import Ints

VALID, LATE, LATE_COPY, DUPLICATE, MALFORMED, BOT = range(6)
LABELS = ("valid", "late", "late_copy", "duplicate", "malformed", "bot")
MALFORMED_KINDS = (
    *("not_json", "truncated", "empty", "missing_field", "wrong_type", "unknown_type", "negative_number"),
    *("unknown_version", "ahead", "key_mismatch", "reused_id"),
)
KINDS = ("", *MALFORMED_KINDS, "agent", "rate")
"""How a record is malformed, or how a bot is recognized."""

_NAMES = pa.dictionary(pa.int8(), pa.string())
SCHEMA = pa.schema(
    [
        ("topic", _NAMES),
        ("partition", pa.int32()),
        ("arrival_ms", pa.int64()),
        ("tie", pa.int64()),
        ("key", pa.binary()),
        ("value", pa.binary()),
        ("type", _NAMES),
        ("id", pa.string()),
        ("label", _NAMES),
        ("kind", _NAMES),
        ("event_ms", pa.int64()),
    ]
)


class Record(NamedTuple):
    """A Kafka record, ready to be written; a partition's records are ordered by (arrival_ms, tie)."""

    topic: str
    partition: int
    arrival_ms: int
    tie: int
    key: bytes
    value: bytes
    type: str
    id: str
    """The event id. For a malformed record, which may have none: the id in its header `simulator_id`."""
    label: str
    kind: str
    event_ms: int


@dataclass(frozen=True)
class Draft:
    """Records as columns; names are indexes into the tuples of names that `batch` gets."""

    topics: Ints
    partitions: NDArray[np.int32]
    times: Ints
    arrivals: Ints
    keys: Any
    values: Any
    types: Ints
    ids: Text
    labels: Ints
    kinds: Ints

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: Ints) -> "Draft":
        """Return some of the rows."""
        chosen = {
            name: column[rows] if isinstance(column, np.ndarray) else taken(column, rows)
            for name, column in vars(self).items()
        }
        return replace(self, **chosen)


def together(drafts: list[Draft]) -> Draft:
    """Concatenate drafts."""
    columns = {
        name: np.concatenate([getattr(draft, name) for draft in drafts])
        if isinstance(column, np.ndarray)
        else pa.concat_arrays([getattr(draft, name) for draft in drafts])
        for name, column in vars(drafts[0]).items()
    }
    return Draft(**columns)


def batch(draft: Draft, first_tie: int, topics: tuple[str, ...], types: tuple[str, ...]) -> pa.RecordBatch:
    """Convert a draft to an Arrow batch: number its rows, to break ties of arrival, and look up its names."""

    def named(numbers: Ints, names: tuple[str, ...]) -> pa.DictionaryArray:
        return pa.DictionaryArray.from_arrays(column(numbers.astype(np.int8)), words(*names))

    columns = [
        named(draft.topics, topics),
        column(draft.partitions),
        column(draft.arrivals),
        column(np.arange(first_tie, first_tie + len(draft))),
        draft.keys,
        draft.values,
        named(draft.types, types),
        draft.ids,
        named(draft.labels, LABELS),
        named(draft.kinds, KINDS),
        column(draft.times),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def labelled(records: pa.RecordBatch, label: str) -> Any:
    """Return for each record whether it has the label."""
    return pc.equal(records["label"].indices, column(np.array([LABELS.index(label)], np.int8))[0])


def counted(records: pa.RecordBatch, *names: str) -> dict[tuple[str, ...], int]:
    """Count records by the values of some columns."""
    numbers = [np.frombuffer(records[name].indices.buffers()[1], np.int8, len(records)) for name in names]
    vocabulary = [records[name].dictionary.to_pylist() for name in names]
    shape = [len(words) for words in vocabulary]
    counts = np.bincount(np.ravel_multi_index(numbers, shape), minlength=int(np.prod(shape)))
    return {key: int(count) for key, count in zip(product(*vocabulary), counts, strict=True) if count}


def rows(records: pa.RecordBatch) -> Iterator[Record]:
    """Read a batch row by row."""
    return map(Record._make, zip(*(column.to_pylist() for column in records.columns), strict=True))
