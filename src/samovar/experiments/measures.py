"""The numbers in a run's metrics log, as curves and as last values. Knows how Samovar's own lines look, and takes any
other line whose values are numbers."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samovar.config.nearest import nearest
from samovar.errors import BadInput
from samovar.results import ResultDirectory
from samovar.results.logs import read_log, read_log_end

LOG = "metrics.jsonl"

_STEPS = ("uri", "step", "iteration", "epoch", "hour")
"""Where a line stands: the first of these that it has as a number, else its place in the log."""
_COUNTS = frozenset({*_STEPS, "shift", "num_batches", "num_examples"})
SIDE_SHOWS = ("policies.", "new_ids.", "live_ids.")
"""Sections of a line that are shown only when they are asked for."""


@dataclass
class Curve:
    steps: list[float] = field(default_factory=list)
    values: list[float] = field(default_factory=list)


def read_curves(directory: ResultDirectory) -> dict[str, Curve]:
    """By metric: `loss` of training, `next_hour+1h.auc` of an evaluation with a shift, `policies.lr`."""
    curves: dict[str, Curve] = defaultdict(Curve)
    for number, line in enumerate(read_log(directory.store, LOG)):
        step = next((float(line[key]) for key in _STEPS if _is_number(line.get(key))), float(number))
        for metric, value in metrics_of(line):
            curves[metric].steps.append(step)
            curves[metric].values.append(value)
    return dict(curves)


def read_last(directory: ResultDirectory) -> dict[str, float]:
    """The last value of each metric."""
    newest = {_shape(line): line for line in read_log_end(directory.store, LOG)}
    return {metric: value for line in newest.values() for metric, value in metrics_of(line)}


def _shape(line: Mapping[str, Any]) -> tuple[object, ...]:
    """Lines of the same shape have the same metrics."""
    what = (line.get("name"), line.get("shift")) if line.get("kind") == "evaluation" else ()
    return (line.get("kind"), *what, *line)


def metrics_of(line: Mapping[str, Any], *, has_shifts: bool = True) -> Iterator[tuple[str, float]]:
    """The numbers of a line by name. Without shifts an evaluation of any later hour has one name: `next_hour.auc`."""
    kind = line.get("kind")
    if kind == "end":
        return
    prefix = ""
    if kind == "evaluation":
        shift = line.get("shift") if has_shifts else None
        prefix = f"{line.get('name')}{'' if shift is None else f'+{shift}h'}."
    yield from _numbers(line, prefix)


def _numbers(section: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    for key, value in section.items():
        if isinstance(value, dict):
            yield from _numbers(value, f"{prefix}{key}.")
        elif _is_number(value) and key not in _COUNTS:
            yield f"{prefix}{key}", float(value)


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def main_metrics(names: Iterable[str]) -> list[str]:
    """Those to show when nothing was asked for."""
    return [name for name in names if not name.startswith(SIDE_SHOWS)]


def match_metrics(wanted: str, names: Sequence[str]) -> list[str]:
    """The metric of that name, or all whose last part it is: `auc` is `next_hour+1h.auc`. An error if there is none."""
    found = [name for name in names if name == wanted] or [name for name in names if name.endswith(f".{wanted}")]
    if found:
        return found
    best = nearest(wanted, {*names, *(name.rpartition(".")[2] for name in names)})
    guess = f"did you mean {best!r}?" if best else "choose one of them"
    known = ", ".join(names) or "none at all"
    raise BadInput(f"metric {wanted!r}: no run has it; expected one of those in the logs ({known}): {guess}")


def match_one(wanted: str, names: Sequence[str]) -> str:
    found = match_metrics(wanted, names)
    if len(found) > 1:
        raise BadInput(f"metric {wanted!r}: found {', '.join(found)}; expected one: name it in full")
    return found[0]
