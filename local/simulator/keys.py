"""Partition by key, with the hash of Kafka's Java producer."""

import numpy as np
from numpy.typing import NDArray

_SEED = 0x9747B28C
_M = np.uint32(0x5BD1E995)


def murmur2(keys: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Hash keys of equal length, one row each, like org.apache.kafka.common.utils.Utils.murmur2, but unsigned."""
    n, length = keys.shape
    whole = length // 4 * 4
    h = np.full(n, _SEED ^ length, np.uint32)
    for k in np.ascontiguousarray(keys[:, :whole]).view("<u4").astype(np.uint32).T:
        k = k * _M
        h = (h * _M) ^ ((k ^ (k >> np.uint32(24))) * _M)
    if length > whole:
        tail = keys[:, whole:].astype(np.uint32)
        for i in range(length - whole):
            h = h ^ (tail[:, i] << np.uint32(8 * i))
        h = h * _M
    h = (h ^ (h >> np.uint32(13))) * _M
    return h ^ (h >> np.uint32(15))


def partitions_of(hashes: NDArray[np.uint32], partitions: int) -> NDArray[np.int32]:
    """Return the partition of each hash; like Kafka, drop the sign bit."""
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(partitions)).astype(np.int32)


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of one key."""
    return int(partitions_of(murmur2(np.frombuffer(key, np.uint8).reshape(1, -1)), partitions)[0])
