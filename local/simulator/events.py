"""What happens in the shop, as columns: events of one type, and the keys they go by."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from local.simulator.columns import Text, fixed, hexed, taken
from local.simulator.keys import murmur2
from local.simulator.rng import Dice, Ints


class Keys(NamedTuple):
    """Keys of records, with the hashes that decide their partitions."""

    text: Text
    hashes: NDArray[np.uint32]

    def take(self, rows: Ints) -> "Keys":
        """Give the keys of some rows."""
        return Keys(taken(self.text, rows), self.hashes[rows])


class Events(NamedTuple):
    """Events of one type, a row each; `payload` is the JSON that follows the envelope, to its closing brace."""

    topic: str
    type: str
    times: Ints
    owners: Ints
    """The numbers of the people they came of: a story is cut by the person."""
    keys: Keys
    payload: Text
    delays: Ints | None = None
    """How long each is held up where the story says so, -1 where it is as usual."""


@dataclass(frozen=True)
class Story:
    """Events of all types; topics and types are numbers into tuples of their names."""

    topics: Ints
    types: Ints
    times: Ints
    owners: Ints
    keys: Keys
    payload: Text
    delays: Ints

    def __len__(self) -> int:
        return len(self.times)

    def take(self, rows: Ints) -> "Story":
        """Give some of the events."""
        return Story(
            self.topics[rows],
            self.types[rows],
            self.times[rows],
            self.owners[rows],
            self.keys.take(rows),
            taken(self.payload, rows),
            self.delays[rows],
        )


def story(parts: list[Events], topics: tuple[str, ...], types: tuple[str, ...]) -> Story:
    """Put events of several types together."""
    counts = [len(part.times) for part in parts]
    usual = [np.full(count, -1) for count in counts]
    return Story(
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
            [as_usual if part.delays is None else part.delays for part, as_usual in zip(parts, usual, strict=True)]
        ),
    )


def new_keys(letter: str, dice: Dice, n: int) -> Keys:
    """Draw ids that nothing else has: a letter and twelve hexadecimal digits."""
    characters = hexed(letter, dice.octets(n, 6))
    return Keys(fixed(characters), murmur2(characters))
