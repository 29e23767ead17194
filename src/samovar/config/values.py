"""Config values and where they are: when two are the same, how errors show one, how a place in a config is written
(`model.lr`, `eval_confs[0].name`, `policies["emb.lr"]`), and which known name a wrong one is most like.
"""

import difflib
import json
import math
import re
from collections.abc import Iterable, Mapping
from enum import Enum
from functools import lru_cache
from typing import Any, Final, TypeAlias

# "epochs" still finds "epoch_count" (0.59), "lr" no longer finds "l2" (0.50).
_CUTOFF = 0.55
_MOST_SHOWN = 30


def nearest(name: str, candidates: Iterable[str]) -> str | None:
    """The candidate most like `name`, ignoring case; None if none is similar."""
    by_folded = {candidate.casefold(): candidate for candidate in sorted(candidates, reverse=True)}
    close = difflib.get_close_matches(name.casefold(), sorted(by_folded), n=1, cutoff=_CUTOFF)
    return by_folded[close[0]] if close else None


def did_you_mean(best: str | None) -> str:
    """The end of a sentence about an unknown name: `. Did you mean 'lr'?`, or nothing without a nearest name."""
    return f". Did you mean {best!r}?" if best else ""


def suggest(name: str, available: Iterable[str]) -> str:
    """The end of an error about an unknown name: `. Did you mean 'lr'? Available: lr, dim`."""
    names = list(available)
    shown = ", ".join(names[:_MOST_SHOWN])
    more = f" and {len(names) - _MOST_SHOWN} more" if len(names) > _MOST_SHOWN else ""
    return f"{did_you_mean(nearest(name, names)) or '.'} Available: {shown or 'none'}{more}"


_PART = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|([^.\[\]"]+)')
_PLAIN = re.compile(r'[^.\[\]"]+')


@lru_cache(maxsize=4096)  # ten thousand configs have the same few keys
def join(path: str, key: str) -> str:
    """The path of `key` inside the section at `path`. A key that looks like a path is quoted, so `{"a.b": 1}` and
    `{"a": {"b": 1}}` never share a path."""
    if not _PLAIN.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def at(path: str, index: int) -> str:
    """The path of one item in the list at `path`."""
    return f"{path}[{index}]"


def split(path: str) -> list[str | int]:
    """The keys and indices that `join` and `at` put together."""
    parts: list[str | int] = []
    for quoted, index, plain in _PART.findall(path):
        parts.append(json.loads(quoted) if quoted else int(index) if index else plain)
    return parts


def covers(pattern: str, path: str) -> bool:
    """Whether `path` is the place that `pattern` names, or inside it. `*.name` matches a name at any depth."""
    wanted, parts = split(pattern), split(path)
    if wanted[:1] == ["*"]:
        wanted = wanted[1:]
        starts = range(len(parts) - len(wanted) + 1)
        return any(parts[start : start + len(wanted)] == wanted for start in starts)
    return parts[: len(wanted)] == wanted


Tree: TypeAlias = dict[str, Any]


class Missing(Enum):
    """The type of `MISSING`: a key that is absent, unlike one that is null."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "MISSING"


MISSING: Final = Missing.MISSING


def is_object_list(value: object) -> bool:
    """Whether a list is a list of sections. It is if all its items are objects; any other list is one value."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) for item in value)


def same(one: Any, other: Any) -> bool:
    """Whether two values are the same: 1 is 1.0 and NaN is NaN, but True is not 1."""
    if isinstance(one, bool) or isinstance(other, bool):
        return one is other
    if isinstance(one, float) and isinstance(other, float) and math.isnan(one):
        return math.isnan(other)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    return bool(one == other)


def describe(value: Any) -> str:
    """A value as errors show it: `'ten' (a string)`."""
    if value is None:
        return "null"
    if isinstance(value, Mapping):
        return f"an object with the keys {_shorten(', '.join(map(str, value)))}" if value else "an empty object"
    text = repr(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=repr)
    return f"{_shorten(text)} ({_kind(value)})"


def _shorten(text: str, limit: int = 60) -> str:
    return text if len(text) <= limit else f"{text[:limit]}…"


def _kind(value: Any) -> str:
    kinds = {bool: "a boolean", int: "an integer", float: "a number", str: "a string", list: "a list"}
    return kinds.get(type(value), f"a Python {type(value).__name__}")


def plain(value: Any) -> Any:
    """A copy of any value as JSON has it. What JSON cannot hold becomes `{"repr": …}`, the same in every run."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)  # a string Enum would print its class
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and math.isfinite(value):
        return float(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, set | frozenset):
        return {"repr": sorted(map(_stable_repr, value))}
    return {"repr": _stable_repr(value)}


def _stable_repr(value: Any) -> str:
    if hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(value))  # an address differs from run to run
