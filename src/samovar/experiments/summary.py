"""A run in one line: its state, kind and age, the last values of its metrics, and its config. Reads files only."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.diff import flatten
from samovar.config.parent import without_parent
from samovar.config.values import MISSING
from samovar.errors import SamovarError
from samovar.experiments.readings import Reply, read_configs, read_facts, read_metrics

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
