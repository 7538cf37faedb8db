"""Keys go to the partitions that Kafka's own producers would choose."""

import numpy as np
import pytest
from kafka.partitioner.default import murmur2 as theirs

from local.simulator.keys import murmur2, partition_of, partitions_of

# From Kafka's own UtilsTest.
VECTORS = {
    "21": -973932308,
    "foobar": -790332482,
    "a-little-bit-long-string": -985981536,
    "a-little-bit-longer-string": -1486304829,
    "lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    "abc": 479470107,
}


@pytest.mark.parametrize(("key", "signed"), VECTORS.items())
def test_murmur2_gives_what_kafka_gives(key: str, signed: int) -> None:
    hashed = murmur2(np.frombuffer(key.encode(), np.uint8).reshape(1, -1))
    assert int(hashed.astype(np.int32)[0]) == signed


def test_kafka_python_chooses_the_same_partitions() -> None:
    for number in range(200):
        key = f"u{number:012x}".encode()
        assert partition_of(key, 4) == (theirs(key) & 0x7FFFFFFF) % 4


def test_many_keys_at_once_go_where_each_would_go() -> None:
    keys = [f"o{number:012x}" for number in range(100)]
    together = partitions_of(murmur2(np.array([list(key.encode()) for key in keys], np.uint8)), 5)
    assert together.tolist() == [partition_of(key.encode(), 5) for key in keys]
