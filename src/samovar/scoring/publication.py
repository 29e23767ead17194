"""What training publishes for servers: a base, and deltas that follow it. Knows no callbacks and no servers.

    published/base/000012/     a whole model, with the files of a bundle
    published/delta/000013/    weights/ alone: dense weights, and the rows that were used since the segment before
    attribute `published`: [{kind, uri, hour, clocks, parent, digest, files}, …]    base first: setting it is the commit

Each segment's digest covers its parent's, so a segment that is missing, doubled or out of order is found. Rows that
expired need no record: see `samovar.embeddings.changes`.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, Literal

from samovar.config.records import Count, check_record
from samovar.embeddings import HashEmbedding
from samovar.errors import CorruptData
from samovar.results.checked import FileRecord, StorePath
from samovar.results.state import read_state, write_state
from samovar.scoring.bundle import PROGRAM, WEIGHTS, read_parts, write_parts
from samovar.scoring.program import Program
from samovar.scoring.signature import Signature
from samovar.scoring.weights import Tree, decoded, weights_tree
from samovar.store import Fence, Store

ATTRIBUTE: Final = "published"
FOLDER: Final = "published"
MAX_DELTAS: Final = 200


@dataclass(frozen=True)
class Segment:
    """One publication.

    Attributes:
        kind: A base is whole; a delta needs all segments before it.
        uri: How many URIs were trained.
        hour: The last one.
        clocks: Of each hash embedding.
        parent: The digest of the segment before; None for a base.
        digest: Of this one: see `with_digest`.
        files: Their records by path.
    """

    kind: Literal["base", "delta"]
    uri: Count
    hour: str
    clocks: Mapping[str, Count]
    parent: str | None
    digest: str
    files: Mapping[StorePath, FileRecord]

    @property
    def prefix(self) -> str:
        """Where its files are."""
        return f"{FOLDER}/{self.kind}/{self.uri:06d}/"

    @property
    def size_bytes(self) -> int:
        """Of its files."""
        return sum(record.size for record in self.files.values())

    def to_json(self) -> dict[str, Any]:
        """The segment as the attribute has it."""
        return asdict(self)

    def with_digest(self) -> "Segment":
        """The segment with the digest that it must have."""
        content = {**asdict(self), "digest": None}
        return replace(self, digest=hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest())


@dataclass(frozen=True)
class Publishable:
    """A model in training, as what it publishes.

    Attributes:
        program: What it computes.
        signature: What it reads and predicts.
        dense: Its weights now.
        embeddings: Its hash embeddings.
    """

    program: Program
    signature: Signature
    dense: Mapping[str, Any]
    embeddings: Mapping[str, HashEmbedding]


def read_chain(store: Store) -> list[Segment]:
    """The newest base and the deltas after it; empty before the first publication.

    Raises:
        CorruptData: A segment is missing, doubled, out of order or changed.
    """
    where = f"{store.name}: the attribute {ATTRIBUTE!r}"
    found = store.attributes().values.get(ATTRIBUTE, [])
    chain = check_record(list[Segment], found, where) if found else []
    check_chain(chain, where)
    return chain


def check_chain(chain: Sequence[Segment], where: str) -> None:
    """Raise `CorruptData` unless each segment follows the one before it."""
    before: Segment | None = None
    for segment in chain:
        if segment.digest != segment.with_digest().digest:
            raise CorruptData(f"{where}: segment {segment.uri} is not what was published")
        if (segment.kind == "base") != (before is None) or segment.parent != (before and before.digest):
            raise CorruptData(f"{where}: segment {segment.uri} does not follow the one before it")
        if any(not path.startswith(segment.prefix) for path in segment.files):
            raise CorruptData(f"{where}: segment {segment.uri} has files elsewhere")
        before = segment


def write_segment(
    store: Store, chain: Sequence[Segment], model: Publishable, uri: int, hour: str, fence: Fence | None = None
) -> list[Segment]:
    """Write the files of the next segment. Returns the chain with it, which the caller commits.

    A delta follows a base of the same program; a new base is written when deltas have grown to half of it.
    """
    if chain and not _is_full(chain) and _has_program(chain[0], model):
        since = dict(chain[-1].clocks)
        segment = Segment("delta", uri, hour, {}, chain[-1].digest, "", {})
    else:
        since, chain = None, ()
        segment = Segment("base", uri, hour, {}, None, "", {})
    tree = weights_tree(model.dense, model.embeddings, since)
    if segment.kind == "base":
        files = write_parts(store, segment.prefix, model.program, model.signature, tree, fence)
    else:
        files = write_state(store, f"{segment.prefix}{WEIGHTS}", tree, fence)
    clocks = {path: each["clock"] for path, each in tree["embeddings"].items()}
    return [*chain, replace(segment, clocks=clocks, files=files).with_digest()]


def _is_full(chain: Sequence[Segment]) -> bool:
    deltas = chain[1:]
    return len(deltas) >= MAX_DELTAS or 2 * sum(each.size_bytes for each in deltas) > chain[0].size_bytes


def _has_program(base: Segment, model: Publishable) -> bool:
    return base.files.get(f"{base.prefix}{PROGRAM}") == FileRecord.of(model.program.to_bytes())


def remove_old(store: Store, *chains: Sequence[Segment]) -> None:
    """Remove the files that none of these chains lists."""
    kept = {path for chain in chains for segment in chain for path in segment.files}
    for entry in store.list(FOLDER):
        if entry.path not in kept:
            store.remove(entry.path)


def read_base(store: Store, base: Segment) -> tuple[Program, Signature, Tree]:
    """The whole model of a base; `CorruptData` if a byte differs."""
    return read_parts(store, base.prefix, base.files)


def read_delta(store: Store, delta: Segment) -> Tree:
    """The rows and dense weights of a delta; `CorruptData` if a byte differs."""
    return decoded(read_state(store, f"{delta.prefix}{WEIGHTS}", delta.files), f"{store.name}/{delta.prefix}{WEIGHTS}")
