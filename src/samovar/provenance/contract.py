"""The exactness contract: what must be equal bit for bit in two runs of one config, and where two runs first differ.
`replay` and `verify-resume` compare by it. Runs nothing.

It covers every file in model/, best/, evaluation/, files/ (stages), the manifests and segments of a table, the metrics
log, and TensorBoard's (tag, step, value) sequence. Wall-clock times are kept elsewhere, and lease epochs are cut from
the names of a table's files.
"""

from collections.abc import Iterator, Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from samovar.config.places import PathLike
from samovar.results import open_directory
from samovar.results.arrays import ArraysFile
from samovar.results.artifacts import BEST, EVENTS_LOG, FILES, METRICS_LOG
from samovar.results.event_file import read_scalars
from samovar.store.lease import without_epoch
from samovar.tables.manifest import list_versions, table_inventory

ROOTS = ("model", BEST, "evaluation", FILES)
Buffer = bytes | memoryview
_MAX_EXCERPT = 120


def contract_of(out: PathLike) -> dict[str, Any]:
    """Everything that must be equal, by name, in the order in which runs write it. Files are mapped, not read."""
    store = open_directory(out).store
    kept: dict[str, Any] = {}
    if store.size(f"logs/{METRICS_LOG}") is not None:
        kept[f"logs/{METRICS_LOG}"] = store.map(f"logs/{METRICS_LOG}")
    if store.size(f"logs/{EVENTS_LOG}") is not None:
        kept[f"logs/{EVENTS_LOG}"] = list(read_scalars(store.read(f"logs/{EVENTS_LOG}")))
    if list_versions(store):  # which process wrote a version is no part of the result
        kept |= {without_epoch(path): store.map(path) for path in sorted(table_inventory(store))}
    return kept | {entry.path: store.map(entry.path) for root in ROOTS for entry in store.list(root)}


def compare(expected: dict[str, Any], found: dict[str, Any]) -> list[str]:
    """One line per difference, with the first place where it shows. Empty: equal."""
    lines = [f"{path}: is missing" for path in sorted(expected.keys() - found.keys())]
    lines += [f"{path}: should not be there" for path in sorted(found.keys() - expected.keys())]
    both = [path for path in expected if path in found and not _is_same(expected[path], found[path])]
    return lines + [f"{path}: differs {_describe_first(path, expected[path], found[path])}" for path in both]


def _is_same(old: Any, new: Any) -> bool:
    return repr(old) == repr(new) if isinstance(old, list) else bool(old == new)  # repr: NaN equals NaN


def _describe_first(path: str, old: Any, new: Any) -> str:
    if isinstance(old, list):
        index, pair = _find_first(old, new)
        return f"in value {index + 1}: {pair[0]} → {pair[1]}"
    if path.endswith(".safetensors"):
        return next(_compare_arrays(old, new), "in its header")
    try:
        lines = str(old, "utf-8").splitlines(), str(new, "utf-8").splitlines()
    except UnicodeDecodeError:
        return f"from byte {_first_byte(old, new)} on"
    if lines[0] == lines[1]:
        return f"from byte {_first_byte(old, new)} on"
    index, pair = _find_first(*lines)
    return f"in line {index + 1}: {_excerpts(*pair)}"


def _find_first(old: Sequence[Any], new: Sequence[Any]) -> tuple[int, tuple[Any, Any]]:
    pairs = enumerate(zip_longest(old, new, fillvalue="nothing"))
    return next((index, pair) for index, pair in pairs if repr(pair[0]) != repr(pair[1]))


def _first_byte(old: Buffer, new: Buffer) -> int:
    size = min(len(old), len(new))
    differing = np.flatnonzero(np.frombuffer(old, np.uint8, size) != np.frombuffer(new, np.uint8, size))
    return int(differing[0]) if len(differing) else size


def _compare_arrays(old: Buffer, new: Buffer) -> Iterator[str]:
    before, after = ArraysFile(memoryview(old)), ArraysFile(memoryview(new))
    for name in before.names:
        if name not in after.names:
            yield f"in the array {name}: it is missing"
        elif before.raw(name) != after.raw(name):
            yield f"in the array {name}, from its byte {_first_byte(before.raw(name), after.raw(name))} on"
    yield from (f"in the array {name}: it is new" for name in after.names if name not in before.names)


def _excerpts(old: str, new: str) -> str:
    """Both lines around the first character that differs."""
    start = next((index for index, (a, b) in enumerate(zip(old, new, strict=False)) if a != b), 0)
    begin = max(0, start - _MAX_EXCERPT // 2)
    shown = [line[begin : begin + _MAX_EXCERPT] for line in (old, new)]
    dots = "…" if begin else ""
    return f"{dots}{shown[0]} → {dots}{shown[1]}"
