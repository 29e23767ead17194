"""Fewer points that keep every spike, and a smooth line that is right from its first point."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.ui.decimation import decimate, smooth

VALUES = st.lists(st.floats(-1e6, 1e6), min_size=1, max_size=400)
STRENGTHS = st.floats(0, 0.999)


@given(VALUES, st.integers(4, 100))
def test_the_ends_and_the_extremes_are_always_drawn(values: list[float], most: int) -> None:
    kept = decimate(values, most)
    assert kept == sorted(set(kept))
    assert (kept[0], kept[-1]) == (0, len(values) - 1)
    assert min(values) == min(values[each] for each in kept)
    assert max(values) == max(values[each] for each in kept)
    assert len(kept) <= max(most, 4)


@given(st.integers(0, 9_999), st.sampled_from([-1.0, 1.0]))
def test_a_single_spike_among_many_points_is_drawn(place: int, height: float) -> None:
    values = [0.0] * 10_000
    values[place] = height
    assert place in decimate(values, 100)


@given(st.floats(-1e9, 1e9), st.integers(1, 200), STRENGTHS)
def test_a_constant_stays_the_same_constant(value: float, count: int, strength: float) -> None:
    assert smooth([value] * count, strength) == [value] * count


@given(VALUES, VALUES, STRENGTHS)
def test_a_point_does_not_move_when_later_ones_are_added(
    values: list[float], more: list[float], strength: float
) -> None:
    assert smooth([*values, *more], strength)[: len(values)] == smooth(values, strength)


@given(VALUES, STRENGTHS)
def test_the_smooth_line_is_the_weighted_mean_of_the_past(values: list[float], strength: float) -> None:
    weights = [strength ** (len(values) - 1 - each) for each in range(len(values))]
    expected = math.fsum(weight * value for weight, value in zip(weights, values, strict=True)) / math.fsum(weights)
    assert smooth(values, strength)[-1] == pytest.approx(expected, rel=1e-9, abs=1e-6)


def test_no_strength_leaves_the_values_alone() -> None:
    assert smooth([3.0, 1.0, 2.0], 0.0) == pytest.approx([3.0, 1.0, 2.0])
