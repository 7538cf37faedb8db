"""Events of the shop in columns, and their Kafka keys."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from local.simulator.columns import Text, fixed, hexed, taken
from local.simulator.keys import murmur2
from local.simulator.rng import Ints, StableRandom


class Keys(NamedTuple):
    """Keys of records, with the hashes that determine their partitions."""

    text: Text
    hashes: NDArray[np.uint32]

    def take(self, rows: Ints) -> "Keys":
        """Return the keys of some rows."""
        return Keys(taken(self.text, rows), self.hashes[rows])


class Events(NamedTuple):
    """Events of one type, one row each; `payload` is the JSON after the envelope, including the closing brace."""

    topic: str
    type: str
    times: Ints
    owners: Ints
    """The person behind each event, by number: a shard is cut to its quota person by person."""
    keys: Keys
    payload: Text
    delays: Ints | None = None
    """The delay of each event, in milliseconds; -1 to draw it as for any other record."""


@dataclass(frozen=True)
class AllEvents:
    """Events of all types; `topics` and `types` are indexes into tuples of names."""

    topics: Ints
    types: Ints
    times: Ints
    owners: Ints
    keys: Keys
    payload: Text
    delays: Ints

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: Ints) -> "AllEvents":
        """Return some of the events."""
        return AllEvents(
            self.topics[rows],
            self.types[rows],
            self.times[rows],
            self.owners[rows],
            self.keys.take(rows),
            taken(self.payload, rows),
            self.delays[rows],
        )


def combined(parts: list[Events], topics: tuple[str, ...], types: tuple[str, ...]) -> AllEvents:
    """Concatenate events of several types."""
    counts = [len(part.times) for part in parts]
    unset = [np.full(count, -1) for count in counts]
    return AllEvents(
        np.repeat([topics.index(part.topic) for part in parts], counts),
        np.repeat([types.index(part.type) for part in parts], counts),
        np.concatenate([part.times for part in parts]),
        np.concatenate([part.owners for part in parts]),
        Keys(
            pa.concat_arrays([part.keys.text for part in parts]),
            np.concatenate([part.keys.hashes for part in parts]),
        ),
        pa.concat_arrays([part.payload for part in parts]),
        np.concatenate(
            [default if part.delays is None else part.delays for part, default in zip(parts, unset, strict=True)]
        ),
    )


def new_keys(letter: str, rng: StableRandom, n: int) -> Keys:
    """Draw unique ids: a letter and twelve hexadecimal digits."""
    characters = hexed(letter, rng.octets(n, 6))
    return Keys(fixed(characters), murmur2(characters))
