"""Configs of many results side by side, with the environment that they were made in if asked. Shows nothing itself."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samovar.config import MISSING, Diff
from samovar.config.diff import diff_flat, flatten, show_value
from samovar.config.parent import PARENT, read_parent, without_parent
from samovar.config.paths import covers
from samovar.config.values import same
from samovar.errors import BadInput
from samovar.experiments.collector import collector_at_rest
from samovar.experiments.targets import Target
from samovar.results.environment import flat_environment

ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Summary:
    """A key in which many configs differ."""

    key: str
    num_values: int
    commonest: Sequence[tuple[str, int]]
    """Values as they are shown, with how many configs have them."""


@collector_at_rest()
def compare_targets(targets: Sequence[Target], ignore: Iterable[str] = (), with_environment: bool = False) -> Diff:
    """Only the keys that are not the same everywhere. `ignore` is as in `flat_diff`; of a clone only its parent's name
    is compared."""
    if len(targets) < 2:
        raise BadInput(f"diff: found {len(targets)} config; expected two or more: name another config or directory")
    diff = diff_flat({target.name: _lay_flat(target.config) for target in targets})
    rows = {**diff.rows, **(_compare_environments(targets) if with_environment else {})}
    patterns = tuple(ignore)
    kept = {key: row for key, row in sorted(rows.items()) if not any(covers(pattern, key) for pattern in patterns)}
    return Diff(diff.names, kept)


def _lay_flat(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten(without_parent(config))
    parent = read_parent(config)
    return flat if parent is None else {**flat, PARENT: parent.config}


def _compare_environments(targets: Sequence[Target]) -> dict[str, list[Any]]:
    """Only results have one; a config, which has none, does not differ from them."""
    flat = {}
    for target in targets:
        if target.directory is not None:
            environment = flat_environment(target.directory.environment)
            flat[target.name] = {f"{ENVIRONMENT}.{key}": value for key, value in environment.items()}
    return {key: [flat.get(target.name, {}).get(key, MISSING) for target in targets] for key in diff_flat(flat).rows}


def put_first(baseline: Target, targets: Sequence[Target]) -> list[Target]:
    """The baseline once, before all others."""
    own = baseline.path.resolve()
    return [baseline, *(target for target in targets if target.path.resolve() != own)]


def against_baseline(diff: Diff) -> Diff:
    """The first name's values whole, of the others only what differs from it: a value that is the same is "", one
    that is missing is "—"."""
    rows = {}
    for key, (base, *others) in diff.rows.items():
        rows[key] = [_told(base), *("" if same(base, other) else _told(other) for other in others)]
    return Diff(diff.names, rows)


def _told(value: Any) -> Any:
    return "—" if value is MISSING else value


def summarize(diff: Diff, num_shown: int = 4) -> list[Summary]:
    """For more configs than a screen has columns."""
    summaries = []
    for key, row in diff.rows.items():
        counts = Counter(show_value(_told(value)) for value in row)
        summaries.append(Summary(key, len(counts), counts.most_common(num_shown)))
    return summaries
