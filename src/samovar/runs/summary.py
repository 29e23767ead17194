"""A run in one line: its state, kind and age, the last values of its metrics, and its config. Reads files only.

The numbers in a run's metrics log, as curves and as last values. Knows how Samovar's own lines look, and takes any
other line whose values are numbers.

What is read of each of many runs: its config, its facts, the last values of its metrics. Looks at nothing twice that
did not change.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.diff import flatten
from samovar.config.identity import without_parent
from samovar.config.values import MISSING, nearest
from samovar.errors import BadInput, SamovarError
from samovar.results import ResultDirectory, open_directory
from samovar.results.artifacts import METRICS_LOG, read_log, read_log_end
from samovar.results.directory import CONFIG, LINEAGE, STATUS
from samovar.runs.index import Reading, read_many
from samovar.store import LocalStore
from samovar.store.base import RESERVED

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
    for number, line in enumerate(read_log(directory.store, METRICS_LOG)):
        step = next((float(line[key]) for key in _STEPS if _is_number(line.get(key))), float(number))
        for metric, value in metrics_of(line):
            curves[metric].steps.append(step)
            curves[metric].values.append(value)
    return dict(curves)


def read_last(directory: ResultDirectory) -> dict[str, float]:
    """The last value of each metric."""
    newest = {_shape(line): line for line in read_log_end(directory.store, METRICS_LOG)}
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


Answer = dict[str, Any]
Reply = Answer | SamovarError
_FINISHED = "finished"


def read_configs(folders: Sequence[Path]) -> list[Reply]:
    return read_many(_CONFIGS, folders)


def read_kinds(folders: Sequence[Path]) -> list[Reply]:
    """`kind`, as lineage names it."""
    return read_many(_KINDS, folders)


def read_facts(folders: Sequence[Path]) -> list[Reply]:
    """`state` and `kind`, and what its status says: `heartbeat`, `position`, `error`, each of them None if absent."""
    return read_many(_FACTS, folders)


def read_metrics(folders: Sequence[Path]) -> list[Reply]:
    """The last value of each metric."""
    return read_many(_METRICS, folders)


def answers(replies: Iterable[Reply]) -> list[Answer]:
    """All of them; the first error among them is raised."""
    found = []
    for reply in replies:
        if isinstance(reply, SamovarError):
            raise reply
        found.append(reply)
    return found


def _read_config(folder: Path) -> Answer:
    return open_directory(folder).config


def _read_kind(folder: Path) -> Answer:
    return {"kind": ResultDirectory(LocalStore(folder)).lineage.kind}


def _read_facts(folder: Path) -> Answer:
    directory = ResultDirectory(LocalStore(folder))
    status, state = directory.status, directory.condition
    if status is None:
        return {"state": state, "kind": directory.lineage.kind, "heartbeat": None, "position": None, "error": None}
    error = None if status.error is None else f"{status.error['type']}: {status.error['message']}"
    return {
        "state": state,
        "kind": status.kind,
        "heartbeat": status.heartbeat,
        "position": status.position,
        "error": error,
    }


def _read_metrics(folder: Path) -> Answer:
    return read_last(ResultDirectory(LocalStore(folder)))


_CONFIGS = Reading("configs-1", (CONFIG,), _read_config)
_KINDS = Reading("kinds-1", (LINEAGE,), _read_kind)
_FACTS = Reading(
    "facts-1",
    (STATUS, f"{RESERVED}/attributes"),
    _read_facts,
    lambda facts: facts["state"] == _FINISHED,  # whether another one lives is not to be seen in these files
)
_METRICS = Reading(
    "metrics-1", (f"logs/{METRICS_LOG}", f"logs/{Path(METRICS_LOG).stem}"), _read_metrics
)  # whole, and in segments

FACTS = ("name", "state", "kind", "age", "position", "error")
"""What every run has; a config key of the same name is reached as `config.name`."""
UNREADABLE = "unreadable"


@dataclass(frozen=True)
class RunSummary:
    facts: Mapping[str, Any]
    """By the names in `FACTS`; `age` in seconds since the run last said something."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    """Flat."""

    def get(self, column: str) -> Any:
        """A fact, or `config.…` or `metric.…` as `Columns` wrote it; `MISSING` when this run has none."""
        section, _, name = column.partition(".")
        if section == "config":
            return self.config.get(name, MISSING)
        return self.metrics.get(name, MISSING) if section == "metric" else self.facts.get(column, MISSING)


def summarize_runs(folders: Sequence[Path], now: datetime) -> list[RunSummary]:
    """Damage is told in the line of the run that has it: others are listed all the same."""
    read = zip(folders, read_configs(folders), read_facts(folders), read_metrics(folders), strict=True)
    return [_summarize(folder, config, facts, metrics, now) for folder, config, facts, metrics in read]


def _summarize(folder: Path, config: Reply, facts: Reply, metrics: Reply, now: datetime) -> RunSummary:
    if isinstance(config, SamovarError) or isinstance(facts, SamovarError) or isinstance(metrics, SamovarError):
        error = next(str(found) for found in (config, facts, metrics) if isinstance(found, SamovarError))
        return RunSummary({"name": str(folder), "state": UNREADABLE, "error": error})
    heartbeat = facts["heartbeat"]
    told = {
        "name": str(folder),
        "state": facts["state"],
        "kind": facts["kind"],
        "age": None if heartbeat is None else max(0.0, (now - datetime.fromisoformat(heartbeat)).total_seconds()),
        "position": facts["position"],
        "error": facts["error"],
    }
    known = {name: MISSING if value is None else value for name, value in told.items()}
    return RunSummary(known, metrics, flatten(without_parent(config)))
