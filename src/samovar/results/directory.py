"""A result directory as anyone may read it: config, status, lineage, model. Reads only: writing needs the lease
(open_result.py).

    model_config.json   the effective config; once it exists, the directory is created
    script.py  all_files/  environment.json  lineage.json  params.json  signature.json  start.json  status.json
    snapshot/  evaluation/  logs/  model/  best/  files/  inventory.json  external_stuff/
"""

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Any, Literal

from pydantic import Field

from samovar.config import Ledger, flatten
from samovar.config.document import decode_config
from samovar.config.identity import STAGE
from samovar.config.places import PathLike, Place, Url, suggest_path
from samovar.config.records import Count, check_record, read_object
from samovar.errors import NotAResult, SamovarError
from samovar.notebook import html_table
from samovar.results.artifacts import BEST
from samovar.results.checked import FileRecord
from samovar.results.inventory import FileList, read_list
from samovar.results.lineage import Lineage, Source, content_of, is_in_memory, result_id
from samovar.results.snapshot import Snapshot, committed_snapshots, read_snapshot
from samovar.results.state import TREE_FILE, read_state
from samovar.results.status import State, Status
from samovar.store import Holder, LeaseState, Store, lease_state, open_store, place_of, read_small

CONFIG = "model_config.json"
SCRIPT = "script.py"
ALL_FILES = "all_files"
ENVIRONMENT = "environment.json"
INVENTORY = "inventory.json"
PARAMS = "params.json"
SIGNATURE = "signature.json"
START = "start.json"
EXTERNAL = "external_stuff"
EXPERIMENT_CONFIGS = "configs"  # what an experiment's folder has instead: the configs of its parts
FINISHED = "finished"  # the attribute with the record of the inventory, and the position
VERSIONS = "versions"  # the attribute of a table: the lease epoch of each version

_MAX_KEYS = 50
_MAX_CHAIN = 200  # deeper, neither a terminal nor nested JSON can show it

Epoch = Literal["last", "best"]
"""Which state of a model: as it ended, or after its best evaluation."""


VersionEpochs = Annotated[list[Count], Field(min_length=1)]


LinkState = Literal["good", "live", "missing", "unfinished", "changed", "unreadable", "circle", "raw files", "not kept"]
Condition = State | Literal["dead", "silent"]
"""dead: it was running, and its process is gone; silent: its process runs but gives no sign of life."""


@dataclass(frozen=True)
class Link:
    """One source in a chain, in its current state.

    Example:
        >>> from samovar.provenance import chain
        >>> print(*(link.state for link in chain("stages/total").links))
        good
    """

    depth: int
    """Steps from the result at the end of the chain."""
    source: Source
    """As the lineage names it."""
    state: LinkState
    """What became of it."""
    origin: "ResultDirectory | None" = None
    """The directory there now; None for raw files, for one that is missing or unreadable, and where a circle closes."""
    cut: Literal["shown above", "too deep"] | None = None
    """Why its own sources do not follow; None if they do."""

    @property
    def is_stale(self) -> bool:
        """Whether the source is no longer what it was."""
        return self.state not in ("good", "live", "raw files", "not kept")


@dataclass(frozen=True)
class Finish:
    """The attribute `finished`."""

    inventory: FileRecord
    position: Any = None


@dataclass(frozen=True)
class CodeChange:
    """An entry of the attribute `script_changes`."""

    number: Count
    files: list[str]
    position: Any
    """Of the newest snapshot at that moment; None before the first."""


@dataclass(frozen=True)
class Look:
    """A result directory at one moment."""

    condition: Condition
    status: Status | None
    """What its last process said; None before the first."""
    holder: Holder | None
    """The process that has the lease, alive or not."""
    is_settled: bool
    """Whether all of this stays true until a file of the directory changes. That a process dies shows in none."""


_KINDS = ("table", "model", "prediction", "bundle", "stage")
WITHOUT_MODEL = ("table", "prediction", "bundle", "stage")


class ResultDirectory:
    """A result directory, read at the moment of each call.

    Args:
        store: The directory.

    Example:
        >>> result = open_directory("models/click")
        >>> result.condition, result.config["seed"]
        ('finished', 1)
    """

    def __init__(self, store: Store) -> None:
        self.store = store
        self.name = store.name

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name})"

    @property
    def place(self) -> Place:
        """Where it is: a path, or the URL of an object store."""
        return place_of(self.store)

    def _repr_html_(self) -> str:
        """What a notebook shows: the state and the config."""
        if not self.is_created:
            return html_table(f"{self.name}: not created yet", (), ())
        rows = [("kind", self.lineage.kind), ("state", self.describe_state()), *flatten(self.config).items()]
        return html_table(self.name, ("key", "value"), rows, max_rows=_MAX_KEYS)

    @property
    def is_created(self) -> bool:
        """Whether there is a result, finished or not."""
        return self.store.size(CONFIG) is not None

    @property
    def is_finished(self) -> bool:
        """Whether the result is complete."""
        return FINISHED in self.store.attributes().values

    @cached_property
    def config(self) -> dict[str, Any]:
        return decode_config(read_small(self.store, CONFIG), f"{self.name}/{CONFIG}")

    @cached_property
    def lineage(self) -> Lineage:
        return Lineage.read(self.store)

    @property
    def kind(self) -> str:
        """What it is: table, model, prediction, stage, or the name of the facade that made it."""
        return "stage" if self.lineage.kind.startswith(STAGE) else self.lineage.kind

    def is_not(self, *wanted: str) -> NotAResult:
        """The error about a directory of the wrong kind: `clicks is a table, not a model`."""
        return NotAResult(f"{self.name} is {self.describe_kind()}, not a {' or '.join(wanted)}")

    def describe_kind(self) -> str:
        """What it is, for people: `a table`."""
        return f"a {self.kind}" if self.kind in _KINDS else f"a result of {self.kind}"

    @property
    def code(self) -> Mapping[str, str]:
        """The digests of the current code: as created, or as accepted later."""
        own = self.store.attributes().values.get("code")
        return self.lineage.code if own is None else check_record(dict[str, str], own, self._attribute("code"))

    @property
    def content(self) -> dict[str, Any]:
        """What determines its bytes: config, ids of inputs, code."""
        return content_of(self.lineage.kind, self.config, self.lineage.sources, self.code)

    @property
    def id(self) -> str:
        """A hash of its content. A live table, which grows, sets its own."""
        own = self.store.attributes().values.get("id")
        return result_id(self.content) if own is None else check_record(str, own, self._attribute("id"))

    def _attribute(self, name: str) -> str:
        """For errors."""
        return f"{self.name}: the attribute {name!r}"

    @property
    def is_live(self) -> bool:
        """Whether it is a table that grows, and so is never finished."""
        return not self.is_finished and VERSIONS in self.store.attributes().values

    @property
    def version(self) -> int | None:
        """The newest version of a table; None if it is not one."""
        epochs = self.version_epochs
        return len(epochs) if epochs else None

    @property
    def version_epochs(self) -> list[int]:
        """The lease epoch that each version of a table was written under; empty if it is not one."""
        found = self.store.attributes().values.get(VERSIONS)
        return [] if found is None else check_record(VersionEpochs, found, self._attribute(VERSIONS))

    @property
    def code_changes(self) -> "list[CodeChange]":
        """Each time that new code was accepted."""
        found = self.store.attributes().values.get("script_changes", [])
        return check_record(list[CodeChange], found, self._attribute("script_changes")) if found else []

    def as_source(self, key: str, version: int | None = None) -> Source:
        """This result as the source of another.

        Args:
            key: The config key that names it.
            version: The version of a table. Default: none.
        """
        return Source(key, str(self.place.resolve()), self.id, version, content=self.content)

    @property
    def ledger(self) -> Ledger | None:
        """The parameters that its code read; None if they were not recorded yet."""
        if self.store.size(PARAMS) is None:
            return None
        where = f"{self.name}/{PARAMS}"
        return Ledger.from_dict(decode_config(read_small(self.store, PARAMS), where), where)

    @property
    def status(self) -> Status | None:
        """What its last process said; None before the first."""
        return Status.read(self.store)

    @property
    def lease(self) -> LeaseState:
        """Who may write here."""
        return lease_state(self.store)

    @property
    def environment(self) -> dict[str, Any]:
        """The versions, threads and git state that it was created with."""
        return read_object(read_small(self.store, ENVIRONMENT), f"{self.name}/{ENVIRONMENT}")

    @property
    def condition(self) -> Condition:
        """What it is doing, or how it ended, in one word."""
        return self.look().condition

    def look(self) -> "Look":
        """Its condition and its status, from one reading of each file."""
        attributes = self.store.attributes()
        lease, status = lease_state(self.store, attributes=attributes), self.status
        if FINISHED in attributes.values:
            return Look("finished", status, lease.holder, is_settled=True)
        condition: Condition
        if lease.is_held:
            condition = "running"
        elif status is None:
            condition = "created"
        elif status.state == "running":
            condition = "silent" if lease.liveness == "silent" else "dead"
        else:
            condition = status.state
        return Look(condition, status, lease.holder, is_settled=lease.holder is None)

    def describe_state(self) -> str:
        """The condition in one line, for people."""
        found = self.look()
        condition, status = found.condition, found.status
        if condition == "running":
            return f"running, held by {found.holder}"
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
        return list(follow_sources(self.lineage.sources, str(self.place.resolve())))

    def inventory(self) -> dict[str, FileRecord]:
        """The records of all files of a finished result."""
        return read_list(self.store, INVENTORY, self.finish.inventory)

    @property
    def finish(self) -> "Finish":
        """What a finished result was committed with."""
        return check_record(Finish, self.store.attributes().values[FINISHED], self._attribute(FINISHED))

    def load_model(self, epoch: Epoch = "last") -> Snapshot:
        """The final model; of an unfinished directory, the newest good snapshot.

        Args:
            epoch: "best" loads the state of the best evaluation so far instead.

        Raises:
            NotAResult: There is neither, or no best.
        """
        if self.kind in WITHOUT_MODEL:
            raise self.is_not("model")
        if epoch == "best":
            return self._load_best()
        if self.is_finished:
            inventory = self.inventory()
            if "model/state.json" not in inventory:
                raise NotAResult(f"{self.name} was finished without a model. Name the directory of a training")
            return Snapshot(0, read_state(self.store, "model", inventory), self.finish.position, FileList(inventory))
        problems = []
        names = committed_snapshots(self.store)
        for name in names:
            try:
                return read_snapshot(self.store, name)
            except SamovarError as error:
                problems.append(str(error))
        if self.is_finished or committed_snapshots(self.store) != names:  # it has moved on meanwhile
            return self.load_model()
        raise NotAResult(
            f"{self.name} has no model yet ({'; '.join(problems) or 'no snapshot'}). Run it until it takes a snapshot"
        )

    def _load_best(self) -> Snapshot:
        files: Mapping[str, FileRecord] = self.inventory() if self.is_finished else self.load_model().inventory
        found = next((path for path in files if path.startswith(f"{BEST}/") and path.endswith(f"/{TREE_FILE}")), None)
        if found is None:
            raise NotAResult(
                f"{self.name} has no best epoch, because it was evaluated less than twice. Use the last one, or train "
                "with evaluation.eval_confs and evaluation.every"
            )
        tree = read_state(self.store, found.removesuffix(f"/{TREE_FILE}"), files)
        position = {key: tree["run"][key] for key in ("next_uri", "trained")}
        return Snapshot(0, tree, position, FileList(files))


def open_directory(place: PathLike, kind: str | None = None) -> ResultDirectory:
    """Open a result directory for reading.

    Args:
        place: Its path or URL.
        kind: What it must be, for example "model". None: any result.

    Raises:
        NotAResult: There is no result directory, or one of another kind.

    Example:
        >>> open_directory("models/click").load_model().position["trained"]
        'epoch 0'
    """
    result = ResultDirectory(open_store(place))
    check_place(result.store, kind or "result directory")
    if not result.is_created:
        raise NotAResult(f"{result.name} has no {CONFIG}, so it is not a result directory")
    if kind is not None and result.kind != kind:
        raise result.is_not(kind)
    return result


def check_place(store: Store, wanted: str) -> None:
    """Refuse what cannot be a result: no directory, or that of an experiment."""
    folder = place_of(store)
    if isinstance(folder, Url):
        if not store.exists():
            raise NotAResult(f"{folder} does not exist; expected a {wanted}")
        if store.size(f"{EXPERIMENT_CONFIGS}/0.json") is not None and store.size(CONFIG) is None:
            raise NotAResult(
                f"{folder} is an experiment's folder, not a {wanted}. Name one of its parts: {folder / '0'}"
            )
        return
    if not os.path.exists(folder):  # unlike Path.exists, false for a name that no disk takes
        hint = suggest_path(folder, is_folder=True)
        raise NotAResult(f"{folder} does not exist; expected a {wanted}{hint}")
    if not folder.is_dir():
        raise NotAResult(f"{folder} is a file; expected a {wanted}")
    if (folder / EXPERIMENT_CONFIGS / "0.json").exists() and not (folder / CONFIG).exists():
        part = next((name for name in ("0", *sorted(os.listdir(folder))) if (folder / name / CONFIG).exists()), None)
        hint = f". Name one of its parts, for example {folder / part}" if part else ""
        raise NotAResult(f"{folder} is an experiment's folder, not a {wanted}{hint}")


def follow_sources(sources: Iterable[Source], top: str) -> Iterator[Link]:
    """Sources and their sources, depth first. Those of a directory are followed once, however many results share it.

    Args:
        sources: Of the result at `top`.
        top: An absolute path.
    """
    seen: set[str] = set()
    above = [top]
    left = [iter(tuple(sources))]
    while left:
        source = next(left[-1], None)
        if source is None:
            left.pop()
            above.pop()
            continue
        link = _follow(source, len(left) - 1, above)
        if link.origin is None:
            yield link
        elif source.path in seen and link.origin.lineage.sources:
            yield replace(link, cut="shown above")
        elif len(left) >= _MAX_CHAIN and link.origin.lineage.sources:
            yield replace(link, cut="too deep")
        else:
            yield link
            seen.add(source.path)
            above.append(source.path)
            left.append(iter(link.origin.lineage.sources))


def _follow(source: Source, depth: int, above: Sequence[str]) -> Link:
    if source.is_raw:
        return Link(depth, source, "not kept" if is_in_memory(source.path) else "raw files")
    if source.path in above:
        return Link(depth, source, "circle")
    try:
        origin = open_directory(source.path)
        return Link(depth, source, _state_of(origin, source), origin)
    except NotAResult:
        return Link(depth, source, "missing")
    except SamovarError:
        return Link(depth, source, "unreadable")


def _state_of(origin: ResultDirectory, source: Source) -> LinkState:
    if origin.id != source.id or not origin.lineage:
        return "changed"
    return "live" if origin.is_live else "good" if origin.is_finished else "unfinished"
