"""Configs of many results side by side: the keys in which they differ, and the short labels made from those keys. Shows
nothing itself.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from samovar.config.diff import Diff, diff_flat, flatten, show_value
from samovar.config.identity import PARENT, identity, read_parent, without_parent
from samovar.config.values import MISSING, Tree, covers, same, split
from samovar.errors import BadInput
from samovar.results.environment import flat_environment
from samovar.runs.find import Target
from samovar.runs.index import read_kinds, require_answers
from samovar.runs.parallel import paused_gc

ENVIRONMENT = "environment"
_MAX_LABEL_LENGTH = 60


@dataclass(frozen=True)
class Summary:
    """A key in which many configs differ."""

    key: str
    num_values: int
    commonest: Sequence[tuple[str, int]]
    """Values as they are shown, each with the number of configs that have it."""


@paused_gc()
def compare_targets(targets: Sequence[Target], ignore: Iterable[str] = (), with_environment: bool = False) -> Diff:
    """Compare configs, and the environments that results were made in if asked.

    Args:
        targets: Two or more. Of a clone's parent, only the name is compared.
        ignore: Keys and sections to leave out, as in `flat_diff`.
        with_environment: Also compare versions, threads and devices.

    Returns:
        Only the keys that are not the same everywhere.

    Raises:
        BadInput: There are fewer than two targets.
    """
    if len(targets) < 2:
        raise BadInput(f"diff: needs at least 2 configs, got {len(targets)}")
    diff = diff_flat({target.name: _flatten(target.config) for target in targets})
    rows = {**diff.rows, **(_compare_environments(targets) if with_environment else {})}
    patterns = tuple(ignore)
    kept = {key: row for key, row in sorted(rows.items()) if not any(covers(pattern, key) for pattern in patterns)}
    return Diff(diff.names, kept)


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten(without_parent(config))
    parent = read_parent(config)
    return flat if parent is None else {**flat, PARENT: parent.config}


def _compare_environments(targets: Sequence[Target]) -> dict[str, list[Any]]:
    """Only results have an environment; a config file does not differ from them."""
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
    """Keep all values of the first name, and of the others only what differs from it: an equal value becomes "", a
    missing one "—"."""
    rows = {}
    for key, (base, *others) in diff.rows.items():
        rows[key] = [_mark_missing(base), *("" if same(base, other) else _mark_missing(other) for other in others)]
    return Diff(diff.names, rows)


def _mark_missing(value: Any) -> Any:
    return "—" if value is MISSING else value


def summarize(diff: Diff, num_shown: int = 4) -> list[Summary]:
    """For more configs than a screen has columns."""
    summaries = []
    for key, row in diff.rows.items():
        counts = Counter(show_value(_mark_missing(value)) for value in row)
        summaries.append(Summary(key, len(counts), counts.most_common(num_shown)))
    return summaries


def read_identities(targets: Sequence[Target]) -> list[Tree]:
    """The flat config of each target, without the keys that cannot change its result. A config file does not say what
    it is for, and counts as one of our own commands'."""
    folders = [target.path for target in targets if target.directory is not None]
    kinds = dict(zip(folders, (answer["kind"] for answer in require_answers(read_kinds(folders))), strict=True))
    return [identity(target.config, kind=kinds.get(target.path, "")) for target in targets]


def label_all(targets: Sequence[Target]) -> list[str]:
    """One label per target, such as `lr=0.1 dim=8`, of the keys that differ and can change a result. The name is added
    where configs are equal, or the label is too long."""
    names = (target.name for target in targets)
    diff = diff_flat(dict(zip(names, read_identities(targets), strict=True)))
    short = shorten_keys(diff.rows)
    labels = [
        " ".join(f"{short[key]}={_show(row[number])}" for key, row in diff.rows.items() if row[number] is not MISSING)
        for number in range(len(targets))
    ]
    counts = Counter(labels)
    return [
        _cut(label)
        if label and counts[label] == 1 and len(label) <= _MAX_LABEL_LENGTH
        else f"{target.name} {_cut(label)}".rstrip()
        for target, label in zip(targets, labels, strict=True)
    ]


def label_group(diff: Diff, numbers: Iterable[int]) -> str:
    """What these targets have in common, of the keys in which all targets differ."""
    members, short = list(numbers), shorten_keys(diff.rows)
    shared = []
    for key, row in diff.rows.items():
        first = row[members[0]]
        if first is not MISSING and all(same(first, row[number]) for number in members):
            shared.append(f"{short[key]}={_show(first)}")
    return _cut(" ".join(shared))


def shorten_keys(keys: Iterable[str]) -> dict[str, str]:
    """The last part of each key, where no other key has the same one."""
    paths = list(keys)
    last = {key: str(split(key)[-1]) for key in paths}
    counts = Counter(last.values())
    return {key: last[key] if counts[last[key]] == 1 else key for key in paths}


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else show_value(value)


def _cut(label: str) -> str:
    return label if len(label) <= _MAX_LABEL_LENGTH else f"{label[: _MAX_LABEL_LENGTH - 1]}…"
