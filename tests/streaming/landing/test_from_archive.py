"""The archive is cut into micro-batches: each offset is in one of them, and each has its share of every partition."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.landing.from_archive import Cut

ENDS = st.dictionaries(st.tuples(st.sampled_from(["clicks", "orders"]), st.integers(0, 3)), st.integers(0, 500))


@given(ENDS, st.integers(1, 40))
def test_every_offset_is_in_one_micro_batch_and_in_order(ends: dict[tuple[str, int], int], batches: int) -> None:
    cut = Cut(ends, batches)
    read: dict[tuple[str, int], int] = {}
    for number in range(batches):
        for partition, (first, end) in cut.ranges(number).items():
            assert first == read.get(partition, 0) < end
            assert end - first <= -(-ends[partition] // batches)
            read[partition] = end
    assert read == {partition: end for partition, end in ends.items() if end}
