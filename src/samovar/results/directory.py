"""A result directory as anyone may read it: config, status, lineage, model. Reads only: writing needs the lease
(open_result.py).

    model_config.json   the effective config; once it exists, the directory is created
    script.py  all_files/  environment.json  lineage.json  params.json  status.json
    snapshot/  evaluation/  logs/  model/  files/  inventory.json  external_stuff/
"""

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, Self

from samovar.config import Ledger, parse_config
from samovar.config.identity import identity
from samovar.errors import CorruptData, NotAResult, NotFound
from samovar.results.checked import FileRecord, map_checked
from samovar.results.snapshot import Snapshot, committed_snapshots, read_snapshot
from samovar.results.state import read_state
from samovar.store import Holder, LeaseState, LocalStore, Store, lease_state, write_file

CONFIG = "model_config.json"
SCRIPT = "script.py"
ALL_FILES = "all_files"
ENVIRONMENT = "environment.json"
INVENTORY = "inventory.json"
LINEAGE = "lineage.json"
STATUS = "status.json"
PARAMS = "params.json"
EXTERNAL = "external_stuff"
FINISHED = "finished"  # the attribute with the record of the inventory, and the position

State = Literal["created", "running", "stopped", "failed", "finished"]


@dataclass(frozen=True)
class Status:
    """`status.json`: what the last process of a directory said about itself.

    It is written on every change and with each heartbeat, and may be stale: only the lease knows whether the process
    is alive.
    """

    state: State
    """created: nothing done yet; running; stopped: on request, resumable; failed: by an error, resumable; finished."""
    kind: str
    """What the directory contains: model, table, or the name of a stage."""
    holder: Holder | None = None
    """The process that works here, or worked here last."""
    heartbeat: str | None = None
    """When this was written, UTC."""
    position: Any = None
    """The position of the newest snapshot, as the stage counts it."""
    error: dict[str, str] | None = None
    """`type` and `message` of the error that made it fail."""
    format: int = 1

    def write(self, store: Store) -> None:
        """Write the file, with the current time as the heartbeat."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_file(store, STATUS, json.dumps(asdict(replace(self, heartbeat=now)), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """Read the file; None if there is none yet."""
        try:
            record = json.loads(store.read(STATUS))
            holder = Holder(**record["holder"]) if record["holder"] else None
            return cls(**{**record, "holder": holder})
        except NotFound:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptData(f"{STATUS} is damaged ({error}). Remove it; it is written again") from error


@dataclass(frozen=True)
class Source:
    """An earlier result, or raw files, that a result is made from. Identified by its id, a hash, not by its path."""

    key: str
    """The config key that named it, for example `train_data.table`."""
    path: str
    id: str
    version: int | None = None
    """The version of a table that grows; its id stays the same."""
    is_raw: bool = False
    """Whether these are raw files, where the chain ends."""
    content: Mapping[str, Any] | None = None
    """What the id is a hash of, to explain later what changed."""


@dataclass(frozen=True)
class Lineage:
    """`lineage.json`: what a result is made from, as known when it was created."""

    kind: str
    sources: tuple[Source, ...]
    code: Mapping[str, str]
    """The SHA-256 of script.py and of each file in all_files."""

    @property
    def inputs(self) -> dict[str, str]:
        """The ids of the sources by config key."""
        return {source.key: source.id for source in self.sources}

    def to_bytes(self) -> bytes:
        return json.dumps({"format": 1, **asdict(self)}, indent=2).encode() + b"\n"

    @classmethod
    def read(cls, store: Store) -> Self:
        record = json.loads(store.read(LINEAGE))
        return cls(record["kind"], tuple(Source(**source) for source in record["sources"]), record["code"])


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


LinkState = Literal["good", "live", "missing", "unfinished", "changed", "circle", "raw files"]
Condition = State | Literal["dead", "silent"]
"""dead: it was running, and its process is gone; silent: its process runs but gives no sign of life."""


@dataclass(frozen=True)
class Link:
    """One source in a chain, in its current state."""

    depth: int
    source: Source
    state: LinkState
    origin: "ResultDirectory | None" = None
    """The directory there now; None for raw files, for a missing directory, and where a circle closes."""

    @property
    def is_stale(self) -> bool:
        return self.state not in ("good", "live", "raw files")


class ResultDirectory:
    """A result directory, read at the moment of each call.

    Example:
        >>> result = open_directory("models/click")
        >>> result.condition, result.config["seed"]
        ('finished', 1)
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name

    @property
    def is_created(self) -> bool:
        return self.store.size(CONFIG) is not None

    @property
    def is_finished(self) -> bool:
        return FINISHED in self.store.attributes().values

    @cached_property
    def config(self) -> dict[str, Any]:
        return parse_config(self.store.read(CONFIG).decode(), f"{self.name}/{CONFIG}")

    @cached_property
    def lineage(self) -> Lineage:
        return Lineage.read(self.store)

    @property
    def code(self) -> Mapping[str, str]:
        """The digests of the current code: as created, or as accepted later."""
        code: Mapping[str, str] = self.store.attributes().values.get("code", self.lineage.code)
        return code

    @property
    def content(self) -> dict[str, Any]:
        """What determines its bytes: config, ids of inputs, code."""
        return content_of(self.lineage.kind, self.config, self.lineage.sources, self.code)

    @property
    def id(self) -> str:
        """A hash of its content. A live table, which grows, sets its own."""
        own: str | None = self.store.attributes().values.get("id")
        return own or result_id(self.content)

    @property
    def is_live(self) -> bool:
        """Whether it is a table that grows, and so is never finished."""
        return not self.is_finished and "version" in self.store.attributes().values

    def as_source(self, key: str, version: int | None = None) -> Source:
        """This result as the source of another."""
        return Source(key, str(Path(self.name).resolve()), self.id, version, content=self.content)

    @property
    def ledger(self) -> Ledger | None:
        """The parameters that its code read; None if they were not recorded yet."""
        if self.store.size(PARAMS) is None:
            return None
        return Ledger.from_dict(parse_config(self.store.read(PARAMS).decode(), f"{self.name}/{PARAMS}"))

    @property
    def status(self) -> Status | None:
        """What its last process said; None before the first."""
        return Status.read(self.store)

    @property
    def lease(self) -> LeaseState:
        return lease_state(self.store)

    @property
    def environment(self) -> dict[str, Any]:
        """The versions, threads and git state that it was created with."""
        environment: dict[str, Any] = json.loads(self.store.read(ENVIRONMENT))
        return environment

    @property
    def condition(self) -> Condition:
        """What it is doing, or how it ended, in one word."""
        if self.is_finished:
            return "finished"
        status, lease = self.status, self.lease
        if lease.is_held:
            return "running"
        if status is None:
            return "created"
        if status.state == "running":
            return "silent" if lease.liveness == "silent" else "dead"
        return status.state

    def describe_state(self) -> str:
        """The condition in one line, for people."""
        condition, status = self.condition, self.status
        if condition == "running":
            return f"running, held by {self.lease.holder}"
        if condition in ("silent", "dead") and status is not None:
            return f"{condition}: {status.holder} was running, last seen {status.heartbeat}; start it again to resume"
        return "created, nothing done yet" if condition == "created" and status is None else condition

    def sizes(self) -> dict[str, int]:
        """The size in bytes of each top-level name."""
        sizes: Counter[str] = Counter()
        for entry in self.store.list():
            sizes[entry.path.split("/")[0]] += entry.size
        return dict(sorted(sizes.items()))

    def chain(self) -> list[Link]:
        """All sources, and their sources, depth first."""
        return list(follow_sources(self.lineage.sources, (str(Path(self.name).resolve()),)))

    def inventory(self) -> dict[str, FileRecord]:
        """The records of all files of a finished result."""
        expected = FileRecord.from_json(self.store.attributes().values[FINISHED]["inventory"])
        document = json.loads(bytes(map_checked(self.store, INVENTORY, expected)))
        return {path: FileRecord.from_json(record) for path, record in document.items()}

    def load_model(self) -> Snapshot:
        """The final model; of an unfinished directory, the newest good snapshot.

        Raises:
            NotAResult: There is neither.
        """
        if self.is_finished:
            finished = self.store.attributes().values[FINISHED]
            inventory = self.inventory()
            if "model/state.json" not in inventory:
                raise NotAResult(f"{self.name} is a finished {self.lineage.kind} and has no model")
            return Snapshot(0, read_state(self.store, "model", inventory), finished["position"], inventory)
        problems = []
        names = committed_snapshots(self.store)
        for name in names:
            try:
                return read_snapshot(self.store, name)
            except CorruptData as error:
                problems.append(str(error))
        if self.is_finished or committed_snapshots(self.store) != names:  # it has moved on meanwhile
            return self.load_model()
        raise NotAResult(f"{self.name} has no model yet ({'; '.join(problems) or 'no snapshot'}). Run it first")


def open_directory(path: Path | str) -> ResultDirectory:
    """Open the result directory in a local folder, for reading.

    Raises:
        NotAResult: There is no result directory.

    Example:
        >>> open_directory("models/click").load_model().position
    """
    folder = Path(path)
    result = ResultDirectory(LocalStore(folder))
    if not folder.is_dir():
        found = "is a file" if folder.exists() else "does not exist"
        raise NotAResult(f"{folder} {found}; expected a result directory")
    if not result.is_created:
        raise NotAResult(f"{folder} has no {CONFIG}, so it is not a result directory")
    return result


def follow_sources(sources: Iterable[Source], above: tuple[str, ...]) -> Iterator[Link]:
    """Sources and their sources, depth first. `above` are the paths on the way here; the first is the result itself."""
    depth = len(above) - 1
    for source in sources:
        if source.is_raw or source.path in above:
            yield Link(depth, source, "raw files" if source.is_raw else "circle")
            continue
        try:
            origin = open_directory(source.path)
        except NotAResult:
            yield Link(depth, source, "missing")
            continue
        yield Link(depth, source, _state_of(origin, source), origin)
        yield from follow_sources(origin.lineage.sources, (*above, source.path))


def _state_of(origin: ResultDirectory, source: Source) -> LinkState:
    if origin.id != source.id:
        return "changed"
    return "live" if origin.is_live else "good" if origin.is_finished else "unfinished"
