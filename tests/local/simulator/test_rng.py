"""Draws that stay the same."""

import numpy as np

from local.simulator.rng import StableRandom


def test_the_draws_are_those_of_every_machine_and_version() -> None:
    rng = StableRandom(7, "a")
    assert rng.below(1_000_000, 3).tolist() == [574933, 446880, 439266]
    assert rng.octets(1, 4).tolist() == [[28, 157, 158, 166]]


def test_equal_names_draw_alike_and_others_do_not() -> None:
    assert StableRandom(7, 1).raw(4).tolist() == StableRandom(7, 1).raw(4).tolist()
    assert StableRandom(7, 1).raw(4).tolist() != StableRandom(7, 2).raw(4).tolist()


def test_a_sample_has_the_asked_size_and_nothing_twice() -> None:
    sample = StableRandom(1).sample(1_000, 0.1)
    assert len(sample) == len(np.unique(sample)) == 100


def test_parts_of_one_are_rounded_right_on_the_whole() -> None:
    rng = StableRandom(1)
    assert 150 < sum(rng.rounded(0.2) for _ in range(1_000)) < 250
