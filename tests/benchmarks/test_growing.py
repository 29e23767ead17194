"""How cost grows: what is compared along an axis, and how it is drawn."""

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest
from benchmarks.contest.quiet import Patience
from benchmarks.growing.base import Axis, Chart, Trial, Turns, grow
from benchmarks.growing.drawing import draw

TURNS = Turns(2, Patience(0))


def takes(seconds: float) -> Callable[[], float]:
    return lambda: seconds


def test_sizes_are_compared_by_the_same_amount_of_work() -> None:
    axis = Axis("rows of a table", "rows", "a reading", "k rows", few=1, many=1000, least=0.5)
    trials = [
        Trial(1, "1 thread", takes(0.004), amount=0.001),
        Trial(1000, "1 thread", takes(2.0), amount=1.0, repeats=4),
        Trial(1, "2 threads", takes(0.002), amount=0.001),
        Trial(1000, "2 threads", takes(1.0), amount=1.0, repeats=4),
    ]
    section, chart = grow(axis, trials, TURNS)
    assert section.peer == "1 row, 2 threads"
    assert section.ratio("1,000 rows, 2 threads") == pytest.approx(2.0)
    assert [(promise.contestant, promise.least) for promise in section.promises] == [("1,000 rows, 2 threads", 0.5)]
    assert chart.lines == {"1 thread": {1: 0.004, 1000: 0.5}, "2 threads": {1: 0.002, 1000: 0.25}}


def test_every_trial_has_its_turn_in_every_round() -> None:
    calls = count()
    trial = Trial(1, "1 thread", lambda: float(next(calls) + 1), amount=1.0)
    section, _ = grow(Axis("ids", "ids", "per step", "ids", few=1, many=1), [trial], TURNS)
    assert next(calls) == TURNS.rounds
    assert not section.promises


def test_the_same_numbers_give_the_same_picture(tmp_path: Path) -> None:
    chart = Chart("ids in a table", "ids", "seconds a step", {"1 thread": {10: 0.1, 1000: 0.3}})
    draw([chart, chart], tmp_path / "first/a.svg")
    draw([chart, chart], tmp_path / "b.svg")
    drawn = (tmp_path / "b.svg").read_bytes()
    assert (tmp_path / "first/a.svg").read_bytes() == drawn
    assert drawn.count(b"ids in a table") >= 2
