"""How runs are told apart in few words: by the keys in which their configs differ, and by no others."""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from samovar.config.diff import Diff, diff_flat, show_value
from samovar.config.paths import split
from samovar.config.values import MISSING, same
from samovar.experiments.identities import read_identities
from samovar.experiments.targets import Target

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
