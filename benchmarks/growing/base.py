"""One quantity that grows, what was measured along it, and the points of its chart. Draws nothing."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from benchmarks.contest.quiet import Patience, compete
from benchmarks.contest.report import Promise, Section


@dataclass(frozen=True)
class Axis:
    title: str
    of: str
    """What grows: "ids"."""
    cost: str
    """What the chart shows: "per step"."""
    unit: str
    """Unit of the work in the table of speeds: "k rows"."""
    few: int
    many: int
    least: float | None = None
    """Promised speed with `many`, as a share of that with `few`."""


@dataclass(frozen=True)
class Trial:
    """One point: a contestant of the section."""

    size: int
    line: str
    time_turn: Callable[[], float]
    amount: float
    """How much a turn does, in the axis's unit."""
    repeats: int = 1
    """How many steps (or whatever the chart shows) are in a turn."""


@dataclass(frozen=True)
class Chart:
    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, Mapping[int, float]]
    """Seconds by size, for each line."""


@dataclass(frozen=True)
class Turns:
    rounds: int
    patience: Patience


def grow(axis: Axis, trials: Sequence[Trial], turns: Turns) -> tuple[Section, Chart]:
    """Run all trials in turns. The last one, with `few`, is the peer of the others."""
    outcome = compete({_name(axis, each): each.time_turn for each in trials}, turns.rounds, axis.title, turns.patience)
    seconds = {_name(axis, each): [t / each.amount for t in outcome.seconds[_name(axis, each)]] for each in trials}
    few, many = (_name(axis, [each for each in trials if each.size == size][-1]) for size in (axis.few, axis.many))
    promises = [Promise(many, few, axis.least)] if axis.least else []
    title = f"{axis.title}; {outcome.num_quiet} quiet"
    section = Section(title, seconds, 1.0, axis.unit, few, promises, outcome.is_disturbed)
    lines: dict[str, dict[int, float]] = {}
    for trial in trials:
        median = statistics.median(outcome.seconds[_name(axis, trial)])
        lines.setdefault(trial.line, {})[trial.size] = median / trial.repeats
    return section, Chart(axis.title, axis.of, f"seconds {axis.cost}", lines)


def _name(axis: Axis, trial: Trial) -> str:
    return f"{trial.size:,} {axis.of if trial.size > 1 else axis.of.removesuffix('s')}, {trial.line}"
