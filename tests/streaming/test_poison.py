"""The search for records that break a job: by halving, whatever their number and place."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.batch_inputs import Ranges
from streaming.poison import search

SIZES = {("clicks", 0): 37, ("clicks", 1): 1, ("users", 0): 64}
PLACES = st.sets(
    st.sampled_from([(*place, offset) for place, size in SIZES.items() for offset in range(size)]), max_size=6
)


def offsets(ranges: Ranges) -> set[tuple[str, int, int]]:
    return {(*place, offset) for place, (first, end) in ranges.items() for offset in range(first, end)}


@given(PLACES)
def test_every_record_that_breaks_it_is_found_alone(broken: set[tuple[str, int, int]]) -> None:
    tried: list[Ranges] = []

    def error_of(ranges: Ranges) -> str | None:
        tried.append(ranges)
        return "broken" if offsets(ranges) & broken else None

    found = list(search({place: (0, size) for place, size in SIZES.items()}, error_of))
    assert sorted(origin for each in found for origin in offsets(each.ranges)) == sorted(broken)
    assert all(len(offsets(each.ranges)) == 1 for each in found)
    assert len(tried) <= 1 + 2 * 7 * len(broken)  # 102 offsets are halved 7 times


@given(PLACES.filter(lambda records: len(records) > 1))
def test_records_that_break_it_only_together_are_found_together(together: set[tuple[str, int, int]]) -> None:
    def error_of(ranges: Ranges) -> str | None:
        return "together" if together <= offsets(ranges) else None

    (found,) = search({place: (0, size) for place, size in SIZES.items()}, error_of)
    assert together <= offsets(found.ranges)
