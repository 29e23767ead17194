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
from samovar.runs.find import Named, Target, find_target, find_targets
from samovar.runs.index import read_codes, read_kinds, require_answers
from samovar.runs.parallel import paused_gc

ENVIRONMENT = "environment"
CODE = "code"
_MAX_LABEL_LENGTH = 60


@dataclass(frozen=True)
class Summary:
    """A key in which many configs differ.

    Attributes:
        key: The key.
        num_values: How many different values it has.
        commonest: Values as they are shown, each with the number of configs that have it.

    Example:
        >>> differences = diff(["models/click_1", "models/click_2"], ignore=["model_dir"])
        >>> print(*(each.key for each in summarize(differences)))
        model.lr
    """

    key: str
    num_values: int
    commonest: Sequence[tuple[str, int]]


@paused_gc()
def diff(
    configs: Named | Iterable[Named],
    *,
    baseline: Named | None = None,
    ignore: Iterable[str] = (),
    environment: bool = False,
) -> Diff:
    """Compare configs and code, and the environments that results were made in if asked.

    Args:
        configs: Result directories, configs, folders or glob patterns that give two or more configs. Of a clone's
            parent, only the name is compared.
        baseline: A config that comes first. Of the others, only what differs from it is kept: an equal value becomes
            "", a missing one "—".
        ignore: Keys and sections to leave out; `*.name` is a key at any depth.
        environment: Also compare versions, threads and devices.

    Returns:
        Only the keys that are not the same everywhere; `code` names the code of each result, if it differs.

    Raises:
        BadInput: There are fewer than two configs.

    Example:
        >>> diff(["models/click_1", "models/click_2"], ignore=["model_dir"]).to_frame()
                  models/click_1  models/click_2
        key
        model.lr             0.1             0.2
    """
    targets = find_targets(configs)
    if baseline is not None:
        targets = _put_first(find_target(baseline), targets)
    if len(targets) < 2:
        raise BadInput(f"diff: needs at least 2 configs, got {len(targets)}")
    found = diff_flat({target.name: _flatten(target.config) for target in targets})
    rows = {**_compare_codes(targets), **found.rows, **(_compare_environments(targets) if environment else {})}
    patterns = tuple(ignore)
    kept = {key: row for key, row in sorted(rows.items()) if not any(covers(pattern, key) for pattern in patterns)}
    return Diff(found.names, kept if baseline is None else _against_first(kept))


def _flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    flat = flatten(without_parent(config))
    parent = read_parent(config)
    return flat if parent is None else {**flat, PARENT: parent.config}


def _compare_codes(targets: Sequence[Target]) -> dict[str, list[Any]]:
    """Of results that have code. A config key named `code` comes before it."""
    folders = [target.path for target in targets if target.directory is not None]
    answers = require_answers(read_codes(folders))
    names = {path: answer["code"] for path, answer in zip(folders, answers, strict=True)}
    row = [names.get(target.path) or MISSING for target in targets]
    return {CODE: row} if len({name for name in row if name is not MISSING}) > 1 else {}


def _compare_environments(targets: Sequence[Target]) -> dict[str, list[Any]]:
    """Only results have an environment; a config file does not differ from them."""
    flat = {}
    for target in targets:
        if target.directory is not None:
            environment = flat_environment(target.directory.environment)
            flat[target.name] = {f"{ENVIRONMENT}.{key}": value for key, value in environment.items()}
    return {key: [flat.get(target.name, {}).get(key, MISSING) for target in targets] for key in diff_flat(flat).rows}


def _put_first(baseline: Target, targets: Sequence[Target]) -> list[Target]:
    """The baseline once, before all others."""
    own = baseline.path.resolve()
    return [baseline, *(target for target in targets if target.path.resolve() != own)]


def _against_first(rows: Mapping[str, list[Any]]) -> dict[str, list[Any]]:
    """Keep all values of the first config, and of the others only what differs from it."""
    return {
        key: [_mark_missing(base), *("" if same(base, other) else _mark_missing(other) for other in others)]
        for key, (base, *others) in rows.items()
    }


def _mark_missing(value: Any) -> Any:
    return "—" if value is MISSING else value


def summarize(diff: Diff, num_shown: int = 4) -> list[Summary]:
    """Summarize a diff of more configs than a screen has columns.

    Args:
        diff: What `diff` returns.
        num_shown: How many values of each key to keep.

    Returns:
        One summary per key.

    Example:
        >>> summarize(diff(["models/click_1", "models/click_2"], ignore=["model_dir"]))
        [Summary(key='model.lr', num_values=2, commonest=[('0.1', 1), ('0.2', 1)])]
    """
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
