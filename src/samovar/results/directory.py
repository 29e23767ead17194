"""A result directory as anybody may look at it. Reads only: whoever writes holds the lease (open_result.py).

model_config.json   the effective config; when it exists, the directory is created
script.py  all_files/  environment.json  lineage.json  params.json  status.json
snapshot/  evaluation/  logs/  model/  files/  inventory.json  external_stuff/

`status.json`: what a directory's last process said of itself. The schema is the dataclass below.

It is written on every change and with each heartbeat, and it may be stale: whether that process still lives is
asked of the lease, never of this file.

Where a result comes from: its sources and its code, each by an id that is a hash of content, not a path.
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

State = Literal["created", "running", "stopped", "failed", "finished"]
STATUS = "status.json"


@dataclass(frozen=True)
class Status:
    state: State
    """created: nothing done yet; running; stopped: on request, can go on; failed: by an error, can go on; finished."""
    kind: str
    """What the directory holds: model, table, or the name of a stage."""
    holder: Holder | None = None
    """Host, process and start of the one that works here, or worked here last."""
    heartbeat: str | None = None
    """When this was written, UTC."""
    position: Any = None
    """The position of the newest snapshot, as the stage counts it."""
    error: dict[str, str] | None = None
    """`type` and `message` of what made it fail."""
    format: int = 1

    def write(self, store: Store) -> None:
        now = datetime.now(UTC).isoformat(timespec="seconds")
        write_file(store, STATUS, json.dumps(asdict(replace(self, heartbeat=now)), indent=2).encode() + b"\n")

    @classmethod
    def read(cls, store: Store) -> Self | None:
        """What the file says; None when there is none yet."""
        try:
            record = json.loads(store.read(STATUS))
            holder = Holder(**record["holder"]) if record["holder"] else None
            return cls(**{**record, "holder": holder})
        except NotFound:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise CorruptData(
                f"{STATUS}: cannot be read ({error}); expected the schema of format 1: remove the file"
            ) from error


LINEAGE = "lineage.json"


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
        record = json.loads(store.read(LINEAGE))
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


CONFIG = "model_config.json"
SCRIPT = "script.py"
ALL_FILES = "all_files"
ENVIRONMENT = "environment.json"
INVENTORY = "inventory.json"
PARAMS = "params.json"
EXTERNAL = "external_stuff"
FINISHED = "finished"  # the attribute: the inventory's record, and the position

LinkState = Literal["good", "live", "missing", "unfinished", "changed", "circle", "raw files"]
Condition = State | Literal["dead", "silent"]
"""dead: it was running, and its process is gone; silent: its process is there, but gives no sign of life."""


@dataclass(frozen=True)
class Link:
    """One source in a chain, as it is now."""

    depth: int
    source: Source
    state: LinkState
    origin: "ResultDirectory | None" = None
    """What is there now; None when nothing is, for raw files, and where a circle closes."""

    @property
    def is_stale(self) -> bool:
        return self.state not in ("good", "live", "raw files")


class ResultDirectory:
    """What a directory says of itself now."""

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
        """Digests of the code in force: as created, or as accepted later."""
        code: Mapping[str, str] = self.store.attributes().values.get("code", self.lineage.code)
        return code

    @property
    def content(self) -> dict[str, Any]:
        """What decides its bytes: config, inputs by id, code."""
        return content_of(self.lineage.kind, self.config, self.lineage.sources, self.code)

    @property
    def id(self) -> str:
        """Of its content; a live table, which grows, has said its own."""
        own: str | None = self.store.attributes().values.get("id")
        return own or result_id(self.content)

    @property
    def is_live(self) -> bool:
        """A table that grows, and so is never finished."""
        return not self.is_finished and "version" in self.store.attributes().values

    def as_source(self, key: str, version: int | None = None) -> Source:
        """This result as one that another is made from."""
        return Source(key, str(Path(self.name).resolve()), self.id, version, content=self.content)

    @property
    def ledger(self) -> Ledger | None:
        """The parameters that its code read; None while nobody has kept them."""
        if self.store.size(PARAMS) is None:
            return None
        return Ledger.from_dict(parse_config(self.store.read(PARAMS).decode(), f"{self.name}/{PARAMS}"))

    @property
    def status(self) -> Status | None:
        return Status.read(self.store)

    @property
    def lease(self) -> LeaseState:
        return lease_state(self.store)

    @property
    def environment(self) -> dict[str, Any]:
        environment: dict[str, Any] = json.loads(self.store.read(ENVIRONMENT))
        return environment

    @property
    def condition(self) -> Condition:
        """What it is doing, or what became of it, in one word."""
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
        """The same in one line."""
        condition, status = self.condition, self.status
        if condition == "running":
            return f"running, held by {self.lease.holder}"
        if condition in ("silent", "dead") and status is not None:
            return f"{condition}: {status.holder} was running, last seen {status.heartbeat}; start it again to go on"
        return "created, nothing done yet" if condition == "created" and status is None else condition

    def sizes(self) -> dict[str, int]:
        """Bytes by top-level name."""
        sizes: Counter[str] = Counter()
        for entry in self.store.list():
            sizes[entry.path.split("/")[0]] += entry.size
        return dict(sorted(sizes.items()))

    def chain(self) -> list[Link]:
        """All sources, and theirs, depth first."""
        return list(follow(self.lineage.sources, (str(Path(self.name).resolve()),)))

    def inventory(self) -> dict[str, FileRecord]:
        """All files of a finished result, with what they must be."""
        expected = FileRecord.from_json(self.store.attributes().values[FINISHED]["inventory"])
        document = json.loads(bytes(map_checked(self.store, INVENTORY, expected)))
        return {path: FileRecord.from_json(record) for path, record in document.items()}

    def load_model(self) -> Snapshot:
        """The final model, or, of an unfinished directory, the newest good snapshot."""
        if self.is_finished:
            finished = self.store.attributes().values[FINISHED]
            inventory = self.inventory()
            if "model/state.json" not in inventory:
                raise NotAResult(
                    f"{self.name}: is a finished {self.lineage.kind} without a model; expected one: check the path"
                )
            return Snapshot(0, read_state(self.store, "model", inventory), finished["position"], inventory)
        problems = []
        names = committed_snapshots(self.store)
        for name in names:
            try:
                return read_snapshot(self.store, name)
            except CorruptData as error:
                problems.append(str(error))
        if self.is_finished or committed_snapshots(self.store) != names:  # it went on while we looked
            return self.load_model()
        raise NotAResult(
            f"{self.name}: has no model yet ({'; '.join(problems) or 'no snapshot'}); expected a finished directory or "
            "one with a snapshot: let it run first"
        )


def open_directory(path: Path | str) -> ResultDirectory:
    """The result directory in a local folder, or `NotAResult`."""
    folder = Path(path)
    result = ResultDirectory(LocalStore(folder))
    if not folder.is_dir():
        found = "a file" if folder.exists() else "nothing there"
        raise NotAResult(f"{folder}: {found}; expected a result directory: check the path")
    if not result.is_created:
        raise NotAResult(f"{folder}: has no {CONFIG}; expected a directory that Samovar made: check the path")
    return result


def follow(sources: Iterable[Source], above: tuple[str, ...]) -> Iterator[Link]:
    """Sources and theirs, depth first; `above` are the paths that led here, the first of them the result itself."""
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
        yield from follow(origin.lineage.sources, (*above, source.path))


def _state_of(origin: ResultDirectory, source: Source) -> LinkState:
    if origin.id != source.id:
        return "changed"
    return "live" if origin.is_live else "good" if origin.is_finished else "unfinished"
