"""How a place in a config is written: `model.lr`, `eval_confs[0].name`, `policies["emb.lr"]`.
Knows nothing of what stands at that place."""

import json
import re
from functools import lru_cache

_PART = re.compile(r'\[("(?:[^"\\]|\\.)*")\]|\[(\d+)\]|([^.\[\]"]+)')
_PLAIN = re.compile(r'[^.\[\]"]+')


@lru_cache(maxsize=4096)  # ten thousand configs have the same few keys
def join(path: str, key: str) -> str:
    """The path of `key` inside the section at `path`. A key that looks like a path is quoted, so that
    `{"a.b": 1}` and `{"a": {"b": 1}}` never share one."""
    if not _PLAIN.fullmatch(key):
        return f"{path}[{json.dumps(key, ensure_ascii=False)}]"
    return f"{path}.{key}" if path else key


def at(path: str, index: int) -> str:
    """The path of one item of the list at `path`."""
    return f"{path}[{index}]"


def split(path: str) -> list[str | int]:
    """The keys and indices that `join` and `at` put together."""
    parts: list[str | int] = []
    for quoted, index, plain in _PART.findall(path):
        parts.append(json.loads(quoted) if quoted else int(index) if index else plain)
    return parts


def covers(pattern: str, path: str) -> bool:
    """Whether `path` is the place that `pattern` names or lies in it; `*.name` is a name at any depth."""
    wanted, parts = split(pattern), split(path)
    if wanted[:1] == ["*"]:
        wanted = wanted[1:]
        starts = range(len(parts) - len(wanted) + 1)
        return any(parts[start : start + len(wanted)] == wanted for start in starts)
    return parts[: len(wanted)] == wanted
