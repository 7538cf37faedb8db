"""Page rate: what a memory says depends on the records within its reach, and on nothing else."""

from hypothesis import given
from hypothesis import strategies as st

from streaming.roles.router.page_rate import PageRate


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30)), max_size=60),
    st.integers(0, 59),
)
def test_a_rebuilt_memory_decides_as_one_that_was_never_lost(seen: list[tuple[str, int]], since: int):
    reach = 15
    old, new = (PageRate(pages=4, span_ms=10_000, reach=reach) for _ in range(2))
    for offset, (user, at) in enumerate(seen):
        answers = []
        for memory in (old, new) if offset >= since - reach else (old,):
            memory.add(offset, user, at * 1000)
            answers.append(memory.too_fast(offset, user, at * 1000))
        assert offset < since or answers[0] == answers[-1]
