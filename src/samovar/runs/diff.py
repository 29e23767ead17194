"""What makes the result of each of many targets: its flat config, without the keys that cannot change it.

How runs are told apart in few words: by the keys in which their configs differ, and by no others.

Configs of many results side by side, with the environment that they were made in if asked. Shows nothing itself.
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
from samovar.runs.index import paused_gc
from samovar.runs.summary import answers, read_kinds


def read_identities(targets: Sequence[Target]) -> list[Tree]:
    """A config file without a result is taken for one of our own commands: nobody knows what it is for."""
    folders = [target.path for target in targets if target.directory is not None]
    kinds = dict(zip(folders, (each["kind"] for each in answers(read_kinds(folders))), strict=True))
    return [identity(target.config, kind=kinds.get(target.path, "")) for target in targets]


_MOST_LETTERS = 60


def label_all(targets: Sequence[Target]) -> list[str]:
    """One label a target, such as `lr=0.1 dim=8`, without keys that can make no other result. Two of the same config
    have their names added."""
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
        if label and counts[label] == 1 and len(label) <= _MOST_LETTERS
        else f"{target.name} {_cut(label)}".rstrip()
        for target, label in zip(targets, labels, strict=True)
    ]


def label_group(diff: Diff, numbers: Iterable[int]) -> str:
    """What the targets with these numbers have in common and not all others have too."""
    members, short = list(numbers), shorten_keys(diff.rows)
    shared = []
    for key, row in diff.rows.items():
        first = row[members[0]]
        if first is not MISSING and all(same(first, row[number]) for number in members):
            shared.append(f"{short[key]}={_show(first)}")
    return _cut(" ".join(shared))


def shorten_keys(keys: Iterable[str]) -> dict[str, str]:
    """Each key by its last name, where that is enough to tell it from the others."""
    paths = list(keys)
    last = {key: str(split(key)[-1]) for key in paths}
    counts = Counter(last.values())
    return {key: last[key] if counts[last[key]] == 1 else key for key in paths}


def _show(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else show_value(value)


def _cut(label: str) -> str:
    return label if len(label) <= _MOST_LETTERS else f"{label[: _MOST_LETTERS - 1]}…"


ENVIRONMENT = "environment"


@dataclass(frozen=True)
class Summary:
    """A key in which many configs differ."""

    key: str
    num_values: int
    commonest: Sequence[tuple[str, int]]
    """Values as they are shown, with how many configs have them."""


@paused_gc()
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
