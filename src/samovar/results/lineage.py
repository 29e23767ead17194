"""What a result is made from: its sources, its code, and the id that follows from them. Knows no directory.

lineage.json   kind, sources with their ids, the digests of the code
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Self

from samovar.config.identity import identity
from samovar.config.records import Count, check_record, read_record
from samovar.store import Store, read_small

LINEAGE = "lineage.json"
IN_MEMORY = "rows in memory"  # a raw source without files


@dataclass(frozen=True)
class Source:
    """An earlier result, or raw files, that a result is made from. Identified by its id, a hash, not by its path.

    Example:
        >>> from samovar.results import open_directory
        >>> source = open_directory("stages/total").lineage.sources[0]
        >>> source.id == open_directory("stages/numbers").id
        True
    """

    key: str
    """The config key that named it, for example `train_data.table`."""
    path: str
    """Where it was when the result was created."""
    id: str
    """Of an earlier result, its id; of raw files, a hash of their fingerprints."""
    version: Count | None = None
    """The version of a table that grows; its id stays the same."""
    is_raw: bool = False
    """Whether these are raw files, where the chain ends."""
    content: Mapping[str, Any] | None = None
    """What the id is a hash of, to explain later what changed."""


@dataclass(frozen=True)
class Content:
    """What the id of a result is a hash of: see `content_of`."""

    kind: str
    config: dict[str, Any]
    inputs: dict[str, str]
    code: dict[str, str]


@dataclass(frozen=True)
class Lineage:
    """`lineage.json`: what a result is made from, as known when it was created.

    Example:
        >>> from samovar.results import open_directory
        >>> lineage = open_directory("stages/total").lineage
        >>> print(*(source.key for source in lineage.sources))
        source
    """

    kind: str
    """What the result is, such as `table` or `model`."""
    sources: tuple[Source, ...]
    """What it is made from."""
    code: Mapping[str, str]
    """The SHA-256 of script.py and of each file in all_files."""

    @property
    def inputs(self) -> dict[str, str]:
        """The ids of the sources by config key."""
        return {source.key: source.id for source in self.sources}

    def to_bytes(self) -> bytes:
        """The text of `lineage.json`."""
        return json.dumps({"format": 1, **asdict(self)}, indent=2).encode() + b"\n"

    @classmethod
    def read(cls, store: Store) -> Self:
        """Read the file.

        Args:
            store: The directory.
        """
        lineage = read_record(cls, read_small(store, LINEAGE), f"{store.name}/{LINEAGE}")
        for source in lineage.sources:
            if source.content is not None and not source.is_raw:
                check_record(Content, source.content, f"{store.name}/{LINEAGE}: the content of {source.key!r}")
        return lineage


def is_in_memory(path: object) -> bool:
    """Whether a record says, in place of paths, that the rows were in memory: `rows in memory (a pandas DataFrame)`."""
    return isinstance(path, str) and path.startswith(f"{IN_MEMORY} (")


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def content_of(
    kind: str, config: Mapping[str, Any], sources: Sequence[Source], code: Mapping[str, str]
) -> dict[str, Any]:
    """Everything that determines the bytes of a result."""
    inputs = {source.key: source.id for source in sources}
    return {"kind": kind, "config": identity(config, inputs, kind), "inputs": inputs, "code": dict(code)}


def result_id(content: Mapping[str, Any]) -> str:
    """An id that is the same for all directories that must have the same bytes, wherever they are."""
    return digest(json.dumps(content, sort_keys=True).encode())[:32]
