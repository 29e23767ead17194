"""A run in one line: its state, kind and age, the last values of its metrics, and its config. Reads files only."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from samovar.config.diff import flatten
from samovar.config.parent import without_parent
from samovar.config.values import MISSING
from samovar.errors import SamovarError
from samovar.experiments.measures import read_last
from samovar.results import ResultDirectory
from samovar.store import LocalStore

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


def summarize_run(path: Path, now: datetime) -> RunSummary:
    """Damage is told in the line of the run that has it: others are listed all the same."""
    directory = ResultDirectory(LocalStore(path))
    try:
        status = directory.status
        facts = {
            "name": directory.name,
            "state": directory.condition,
            "kind": status.kind if status is not None else directory.lineage.kind,
            "age": MISSING,
            "position": MISSING,
            "error": MISSING,
        }
        if status is not None and status.heartbeat is not None:
            facts["age"] = max(0.0, (now - datetime.fromisoformat(status.heartbeat)).total_seconds())
        if status is not None and status.position is not None:
            facts["position"] = status.position
        if status is not None and status.error is not None:
            facts["error"] = f"{status.error['type']}: {status.error['message']}"
        return RunSummary(facts, read_last(directory), flatten(without_parent(directory.config)))
    except (SamovarError, ValueError, KeyError) as error:
        return RunSummary({"name": directory.name, "state": UNREADABLE, "error": str(error)})
