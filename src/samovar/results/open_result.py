"""A result directory that this process holds and may write: the one life of every result.

    begin ─▶ created ─▶ running ─▶ finished        begin again: says so, does nothing
                          │ killed, stopped, failed
                          ▼
                        begin again: restore() gives the newest good snapshot, and all that was
                        written after it is gone

Everything written counts only from a commit on: `model_config.json` (created), the attribute `snapshots` (save),
the attribute `finished` (finish).
"""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from samovar.config import compare, dump_config
from samovar.errors import Conflict, CorruptData, NotAResult, Stopped
from samovar.results.artifacts import Artifacts
from samovar.results.checked import CheckedWriter, FileRecord, write_checked
from samovar.results.directory import (
    ALL_FILES,
    CONFIG,
    ENVIRONMENT,
    EXTERNAL,
    FINISHED,
    INVENTORY,
    LINEAGE,
    PARAMS,
    SCRIPT,
    Lineage,
    ResultDirectory,
    Source,
    State,
    Status,
    digest,
)
from samovar.results.environment import capture_environment, changed_environment
from samovar.results.snapshot import (
    SNAPSHOTS,
    Snapshot,
    committed_snapshots,
    read_snapshot,
    remove_uncommitted,
    write_snapshot,
)
from samovar.results.state import write_state
from samovar.store import Lease, take_lease, write_file
from samovar.store.lease import HEARTBEAT_SECONDS


@dataclass(frozen=True)
class ResultPlan:
    """What a directory is to become."""

    kind: str
    config: Mapping[str, Any]
    """The effective config, after all overrides."""
    script: bytes | None = None
    files: Mapping[str, bytes] = field(default_factory=dict)
    """Other code and data that the script uses; kept in all_files."""
    sources: Sequence[Source] = ()
    init_from: ResultDirectory | None = None
    """A model to start from when there is no snapshot yet."""
    code_folder: Path | None = None
    """Where the script lies, for its git state."""

    @property
    def code_files(self) -> dict[str, bytes]:
        script = {} if self.script is None else {SCRIPT: self.script}
        return {**script, **{f"{ALL_FILES}/{name}": data for name, data in self.files.items()}}

    @property
    def lineage(self) -> Lineage:
        code = {name: digest(data) for name, data in self.code_files.items()}
        return Lineage(self.kind, tuple(self.sources), code)


class OpenResult:
    """A directory between `begin` and the end of its `with` block."""

    def __init__(self, directory: ResultDirectory, plan: ResultPlan, lease: Lease | None) -> None:
        self.directory = directory
        self.notes: list[str] = []
        """What the user should be told: settings that differ, versions that changed, a snapshot that was damaged."""
        self._plan = plan
        self._store = directory.store
        self._lease = lease
        self._artifacts = Artifacts(self._store, self._held)
        self._status = Status("created", plan.kind)
        self._status_lock = threading.Lock()
        self._is_restored = False
        self._bad_snapshots: set[str] = set()

    @property
    def is_finished(self) -> bool:
        """The result is there already: nothing is to be done, and nothing can be written."""
        return self._lease is None

    def restore(self) -> Snapshot | None:
        """Go back to the newest good snapshot, directory and all; else to the start (`init_from`, or None)."""
        self._held()
        damaged = []
        for name in committed_snapshots(self._store):
            try:
                snapshot = read_snapshot(self._store, name)
                self._artifacts.roll_back(snapshot.inventory)
            except CorruptData as error:
                damaged.append(f"snapshot {name.number} is damaged: {error}")
                self._bad_snapshots.add(name.name)
                continue
            self.notes += [f"{problem}; going on from snapshot {snapshot.number}" for problem in damaged]
            self._is_restored = True
            self._say(position=snapshot.position)
            return snapshot
        if damaged:
            raise CorruptData(f"{self.directory.name}: no snapshot can be used: {'; '.join(damaged)}")
        self._artifacts.roll_back({})
        self._is_restored = True
        return self._plan.init_from.load_model() if self._plan.init_from is not None else None

    def is_code_new_at(self, position: Any) -> bool:
        """Whether other code was accepted since the snapshot at this position, and none was taken with it yet."""
        changes = self._store.attributes().values.get("script_changes", [])
        return bool(changes) and changes[-1]["position"] == position

    def save(self, tree: object, position: Any) -> None:
        """Commit a snapshot of the state and of every artifact so far."""
        lease = self._working()
        self._artifacts.seal()
        write_snapshot(self._store, lease, tree, position, self._artifacts.inventory, self._bad_snapshots)
        self._say(position=position)

    def check(self) -> None:
        """`LeaseLost` when another process took the directory over."""
        self._working()

    def adopt_files(self) -> None:
        """Count the plain files that a stage wrote below `files/`; they belong to the result from the finish on."""
        self._working()
        self._artifacts.adopt()

    def append(self, log: str, line: Mapping[str, Any]) -> None:
        """Add a line to a log, for example `metrics.jsonl`; it is kept from the next snapshot on."""
        self.append_bytes(log, json.dumps(line).encode() + b"\n")

    def append_bytes(self, log: str, data: bytes) -> None:
        """The same for a log that is no text, for example `tensorboard/events.tfevents`."""
        self._artifacts.append(log, data)

    @contextmanager
    def create(self, path: str) -> Iterator[CheckedWriter]:
        """Write a part file, for example `evaluation/train/…`; it is kept from the next snapshot on."""
        self._working()
        with self._artifacts.create(path) as writer:
            yield writer

    @contextmanager
    def create_beside(self, path: str) -> Iterator[CheckedWriter]:
        """The same without waiting for the disk; the next snapshot, or the finish, waits for it."""
        self._working()
        with self._artifacts.create_beside(path) as writer:
            yield writer

    def commit(self, **values: Any) -> None:
        """Set attributes of the directory, if it is still ours: for stages with commits of their own."""
        self._working().commit(**values)

    def write_params(self, ledger: Mapping[str, Any]) -> None:
        """Keep the ledger of parameters that were read."""
        self._held()
        write_file(self._store, PARAMS, dump_config(ledger).encode())

    def finish(self, tree: object | None, position: Any, files: Mapping[str, FileRecord] | None = None) -> None:
        """Write the final model, if there is one, and say that all is done. `files` are others that belong to the
        result. Nothing may follow."""
        lease = self._working()
        self._artifacts.join()
        model = write_state(self._store, "model", tree, lease.check) if tree is not None else {}
        inventory = {**self._artifacts.inventory, **model, **(files or {}), **self._origins()}
        text = json.dumps({path: asdict(record) for path, record in sorted(inventory.items())}, indent=1)
        record = write_checked(self._store, INVENTORY, text.encode(), lease.check)
        lease.commit(**{FINISHED: {"inventory": asdict(record), "position": position}})
        lease.stop_beating()
        _clean_after_finish(self.directory, inventory)
        self._say("finished", position=position)

    def _origins(self) -> dict[str, FileRecord]:
        """What the result was made from, as the directory keeps it: config, code, environment, ledger."""
        changes = range(1, len(self._store.attributes().values.get("script_changes", [])) + 1)
        scripts = [SCRIPT, *(_archive_name(SCRIPT, number) for number in changes)]
        folders = [ALL_FILES, *(f"{ALL_FILES}.{number}" for number in changes)]
        names = [CONFIG, ENVIRONMENT, LINEAGE, PARAMS, *scripts, *folders]
        paths = [entry.path for name in names for entry in self._store.list(name)]
        return {path: FileRecord.of(self._store.read(path)) for path in paths}

    # Beginning and ending

    def create_or_check(self, accept_script: bool) -> None:
        """Make the directory, or make sure that it is this plan's."""
        self._store.sweep()
        if not self.directory.is_created:
            self._create()
            self._say("created")
        else:
            self.notes += _check_config(self.directory, self._plan)
            self._check_script(accept_script)
            changes = changed_environment(self.directory.environment, capture_environment())
            self.notes += [f"not the same as when this began, so bits may differ: {change}" for change in changes]
        remove_uncommitted(self._store, committed_snapshots(self._store))

    def _create(self) -> None:
        for name, data in self._plan.code_files.items():
            write_file(self._store, name, data)
        environment = json.dumps(capture_environment(self._plan.code_folder), indent=2)
        write_file(self._store, ENVIRONMENT, environment.encode() + b"\n")
        write_file(self._store, LINEAGE, self._plan.lineage.to_bytes())
        self._store.create_if_absent(CONFIG, dump_config(self._plan.config).encode())

    def _check_script(self, accept_script: bool) -> None:
        old, new = dict(self.directory.code), dict(self._plan.lineage.code)
        changed = sorted(name for name in old.keys() | new.keys() if old.get(name) != new.get(name))
        if changed and not accept_script:
            raise Conflict(
                f"{self.directory.name}: {', '.join(changed)} changed since this run began; expected the same code, so "
                "that the result can be explained: bring it back, start a new directory, or go on with --accept-script"
            )
        if changed:
            self._accept_script(old, new, changed)
        for name, data in self._plan.code_files.items():  # a kill may have come between the commit and this
            if self._store.size(name) is None or digest(self._store.read(name)) != new[name]:
                write_file(self._store, name, data)
        for entry in self._store.list(ALL_FILES):  # what the code does not import any more
            if entry.path not in new and "__pycache__" not in entry.path:
                self._store.remove(entry.path)

    def _accept_script(self, old: dict[str, str], new: dict[str, str], changed: list[str]) -> None:
        changes = list(self._store.attributes().values.get("script_changes", []))
        number = len(changes) + 1
        for name in changed:
            if name in old:
                write_file(self._store, _archive_name(name, number), self._store.read(name))
        position = self._safe_position()
        changes.append({"number": number, "files": changed, "position": position})
        self._held().commit(code=new, script_changes=changes)
        when = "before the first snapshot" if position is None else f"at position {position}"
        self.notes.append(f"the code changed {when}: {', '.join(changed)}; the old is kept")

    def _safe_position(self) -> Any:
        """Of the newest good snapshot; None before the first."""
        for name in committed_snapshots(self._store):
            with suppress(CorruptData):
                return read_snapshot(self._store, name).position
        return None

    def start(self, heartbeat_seconds: float | None) -> None:
        self._say("running")
        if heartbeat_seconds is not None:
            self._held().keep_beating(self._say, heartbeat_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._lease is None:
            return
        self._artifacts.close()
        self._lease.stop_beating()
        try:
            if not self.directory.is_finished:
                is_stop = error is None or isinstance(error, Stopped | KeyboardInterrupt)
                self._end_with("stopped", None) if is_stop else self._end_with("failed", error)
        finally:
            self._lease.release()
            self._lease = None

    def _end_with(self, state: State, error: BaseException | None) -> None:
        described = None
        if error is not None:
            notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            described = {"type": type(error).__name__, "message": f"{error}{notes}"}
        try:
            self._held()
            self._say(state, error=described)
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"and status.json could not be written: {failure}")

    def _say(self, state: State | None = None, **changes: Any) -> None:
        with self._status_lock:
            lease = self._held()
            self._status = replace(self._status, state=state or self._status.state, holder=lease.holder, **changes)
            self._status.write(self._store)

    def _working(self) -> Lease:
        if not self._is_restored and self._lease is not None:
            raise Conflict(
                f"{self.directory.name}: written to before restore(); expected to know first what is there: "
                "call restore() after begin()"
            )
        return self._held()

    def _held(self) -> Lease:
        if self._lease is None:
            raise Conflict(f"{self.directory.name}: is finished; a result is never overwritten: start a new directory")
        self._lease.check()
        return self._lease


def begin(
    directory: ResultDirectory,
    plan: ResultPlan,
    *,
    accept_script: bool = False,
    heartbeat_seconds: float | None = HEARTBEAT_SECONDS,
) -> OpenResult:
    """Start, or go on with, a result; use it in a `with` block. A finished one comes back as `is_finished`."""
    _refuse_foreign(directory)
    if directory.is_finished:
        return _finished(directory, plan)
    lease = take_lease(directory.store)
    try:
        if directory.is_finished:
            lease.release()
            return _finished(directory, plan)
        result = OpenResult(directory, plan, lease)
        result.create_or_check(accept_script)
        result.start(heartbeat_seconds)
        return result
    except BaseException:
        lease.release()
        raise


def _finished(directory: ResultDirectory, plan: ResultPlan) -> OpenResult:
    result = OpenResult(directory, plan, None)
    result.notes = _check_config(directory, plan)
    if _was_killed_after_finish(directory):
        with take_lease(directory.store) as lease:
            directory.store.sweep()
            _clean_after_finish(directory, directory.inventory())
            position = directory.store.attributes().values[FINISHED]["position"]
            Status("finished", plan.kind, lease.holder, position=position).write(directory.store)
    return result


def _was_killed_after_finish(directory: ResultDirectory) -> bool:
    status, lease = directory.status, directory.lease
    is_told = status is not None and status.state == "finished"
    return not lease.is_held and (lease.holder is not None or not is_told)


def _clean_after_finish(directory: ResultDirectory, inventory: Mapping[str, FileRecord]) -> None:
    """Remove what only an unfinished run needs: snapshots and the logs' segments."""
    directory.store.remove_tree(SNAPSHOTS)
    for folder in sorted({entry.path.rpartition("/")[0] for entry in directory.store.list("logs")} - {"logs"}):
        if not any(path.startswith(f"{folder}/") for path in inventory):
            directory.store.remove_tree(folder)


def _refuse_foreign(directory: ResultDirectory) -> None:
    if directory.store.attributes().version > 0:
        return
    foreign = [entry.path for entry in directory.store.list() if not entry.path.startswith(f"{EXTERNAL}/")]
    if CONFIG in foreign:
        raise NotAResult(
            f"{directory.name}: has a {CONFIG} but not its hidden .samovar folder; expected both: "
            "copy the directory again, with hidden files (cp -r DIR, not DIR/*)"
        )
    if foreign:
        raise NotAResult(
            f"{directory.name}: holds {len(foreign)} files that Samovar did not make, for example {foreign[0]}; "
            "expected a new or empty directory: choose another one"
        )


def _check_config(directory: ResultDirectory, plan: ResultPlan) -> list[str]:
    old, new = directory.lineage, plan.lineage
    found = compare(directory.config, plan.config, old.inputs, new.inputs, new.kind)
    if found.conflicts.rows:
        is_bare = not (directory.is_finished or directory.is_live or committed_snapshots(directory.store))
        raise Conflict(
            f"{directory.name}: belongs to another config; expected the same one. The difference:\n"
            f"{found.conflicts.to_csv()}Use another directory, or the config that it was made with"
            f"{', or remove it: it has no snapshot' if is_bare else ''}"
        )
    return [f"{key} differs from when this began: {old} → {new}" for key, (old, new) in found.allowed.rows.items()]


def _archive_name(name: str, number: int) -> str:
    if name == SCRIPT:
        return f"script.{number}.py"
    return name.replace(f"{ALL_FILES}/", f"{ALL_FILES}.{number}/", 1)
