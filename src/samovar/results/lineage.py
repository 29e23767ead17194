"""Where a result comes from: its sources and its code, each by an id that is a hash of content, not a path."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from samovar.config.identity import identity
from samovar.store import Store

FILE = "lineage.json"


@dataclass(frozen=True)
class Source:
    """An earlier result, or raw files, that this one was made from."""

    key: str
    """The config key that named it, for example `train_data.table`."""
    path: str
    id: str
    version: int | None = None
    """Of a table that grows; the id stays the same."""
    is_raw: bool = False
    """Raw files: the chain ends here."""
    content: Mapping[str, Any] | None = None
    """What the id of an earlier result stood for, so that it can be told later what changed."""


@dataclass(frozen=True)
class Lineage:
    """What was known of a result when it was begun."""

    kind: str
    sources: tuple[Source, ...]
    code: Mapping[str, str]
    """SHA-256 of script.py and of each file in all_files."""

    @property
    def inputs(self) -> dict[str, str]:
        return {source.key: source.id for source in self.sources}

    def to_bytes(self) -> bytes:
        return json.dumps({"format": 1, **asdict(self)}, indent=2).encode() + b"\n"

    @classmethod
    def read(cls, store: Store) -> Self:
        record = json.loads(store.read(FILE))
        return cls(record["kind"], tuple(Source(**source) for source in record["sources"]), record["code"])


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_of(
    kind: str, config: Mapping[str, Any], sources: Sequence[Source], code: Mapping[str, str]
) -> dict[str, Any]:
    """All that decides the bytes of a result."""
    inputs = {source.key: source.id for source in sources}
    return {"kind": kind, "config": identity(config, inputs, kind), "inputs": inputs, "code": dict(code)}


def result_id(content: Mapping[str, Any]) -> str:
    """The same for every directory that must hold the same bytes, wherever it lies."""
    return digest(json.dumps(content, sort_keys=True).encode())[:32]
