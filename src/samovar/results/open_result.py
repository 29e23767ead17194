"""A result directory that this process holds and may write: the life cycle of every result.

    begin ─▶ created ─▶ running ─▶ finished        begin again: reports it and does nothing
                          │ killed, stopped, failed
                          ▼
                        begin again: restore() returns the newest good snapshot and removes the
                        logs, part files and models that were written after it

What is written counts only after a commit: `model_config.json` (created), the attribute `snapshots` (save), the
attribute `finished` (finish).
"""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from types import TracebackType
from typing import Any, Self

from samovar.config import dump_config
from samovar.errors import Conflict, CorruptData, LeaseLost, SamovarError, Stopped
from samovar.results.artifacts import BEST, ROOTS, Artifacts
from samovar.results.checked import CheckedWriter, FileRecord, write_checked
from samovar.results.directory import (
    ALL_FILES,
    CONFIG,
    ENVIRONMENT,
    FINISHED,
    INVENTORY,
    PARAMS,
    SCRIPT,
    SIGNATURE,
    START,
    ResultDirectory,
)
from samovar.results.environment import capture_environment, changed_environment
from samovar.results.inventory import FileList
from samovar.results.lineage import LINEAGE
from samovar.results.partial import COPY, refuse_foreign, refuse_partial
from samovar.results.plan import ResultPlan
from samovar.results.resuming import archive_name, check_config, describe_new_code, settle_code
from samovar.results.snapshot import ATTRIBUTE as SNAPSHOTS_ATTRIBUTE
from samovar.results.snapshot import (
    SNAPSHOTS,
    Snapshot,
    committed_snapshots,
    list_files,
    read_snapshot,
    remove_uncommitted,
    write_snapshot,
)
from samovar.results.state import write_state
from samovar.results.status import STATUS, State, Status
from samovar.store import Lease, take_lease, write_file
from samovar.store.lease import HEARTBEAT_SECONDS


class OpenResult:
    """A directory between `begin` and the end of its `with` block. Call `restore` before writing logs, part files or
    snapshots.

    Args:
        directory: Where to write.
        plan: What the directory is to contain.
        lease: The right to write there.

    Example:
        >>> from samovar.store import LocalStore
        >>> with begin(ResultDirectory(LocalStore("sums")), ResultPlan("sums", {"count": 3})) as result:
        ...     result.restore()
        ...     result.append("metrics.jsonl", {"sum": 6})
        ...     result.finish({"total": 6}, position=3)
    """

    def __init__(self, directory: ResultDirectory, plan: ResultPlan, lease: Lease | None) -> None:
        self.directory = directory
        self.notes: list[str] = []
        """What the user should know: settings that differ, versions that changed, a damaged snapshot."""
        self._plan = plan
        self._store = directory.store
        self._lease = lease
        self._artifacts = Artifacts(self._store, self._require_lease)
        self._status = Status("created", plan.kind)
        self._status_lock = threading.Lock()
        self._is_restored = False
        self._is_forgotten = False
        self._bad_snapshots: set[str] = set()

    @property
    def is_finished(self) -> bool:
        """Whether the result existed before: there is nothing to do, and nothing can be written."""
        return self._lease is None

    @property
    def epoch(self) -> int:
        """The epoch of the lease: in the names of files that only one holder may ever write."""
        return self._require_lease().epoch

    def restore(self, check: Callable[[Any], object] = lambda tree: None) -> Snapshot | None:
        """Roll the directory back to the newest good snapshot, or to the start if there is none.

        Args:
            check: Raises `CorruptData` for the tree of a snapshot that cannot be used; then the one before is tried.

        Returns:
            The snapshot; at the start, the model of `init_from`, or None.

        Raises:
            CorruptData: There are snapshots, and all of them are damaged.
        """
        self._require_lease()
        damaged = []
        names = committed_snapshots(self._store)
        for number, name in enumerate(names):
            try:
                snapshot = read_snapshot(self._store, name)
                check(snapshot.tree)
                lost = self._artifacts.roll_back(snapshot.files, list_files(self._store, names[number + 1 :]))
            except LeaseLost:
                raise
            except SamovarError as error:
                damaged.append(f"snapshot {name.number} is damaged: {error}")
                self._bad_snapshots.add(name.name)
                continue
            self.notes += [f"{problem}; resuming from snapshot {snapshot.number}" for problem in damaged]
            self.notes += [f"{problem}; its lines are lost, and no result depends on them" for problem in lost]
            self._is_restored = True
            self._update_status(position=snapshot.position)
            return snapshot
        if damaged:
            raise CorruptData(
                f"{self.directory.name} has no usable snapshot: {'; '.join(damaged)}. Without a copy, start again in a "
                "new directory"
            )
        self._artifacts.roll_back(FileList())
        self._is_restored = True
        return self._plan.init_from.load_model() if self._plan.init_from is not None else None

    def is_code_new_at(self, position: Any) -> bool:
        """Whether new code was accepted after the snapshot at this position, and no snapshot was taken since.

        Args:
            position: As `save` got it.
        """
        changes = self.directory.code_changes
        return bool(changes) and changes[-1].position == position

    def save(self, tree: object, position: Any) -> None:
        """Commit a snapshot of the state and of every file so far.

        Args:
            tree: The state: dicts, lists, numbers, texts, tensors and arrays.
            position: Where the run is, as plain JSON.
        """
        lease = self._require_restored()
        self._artifacts.seal()
        write_snapshot(self._store, lease, tree, position, self._artifacts.files, self._bad_snapshots)
        self._artifacts.remove_dropped()
        self._update_status(position=position)

    def check(self) -> None:
        """Raise `LeaseLost` if another process took over the directory."""
        self._require_restored()

    def register_files(self) -> None:
        """Add the plain files that a stage wrote below `files/` to the result; `finish` commits them."""
        self._require_restored()
        self._artifacts.register_files()

    def append(self, log: str, line: Mapping[str, Any]) -> None:
        """Append a line to a log such as `metrics.jsonl`. The next snapshot commits it.

        Args:
            log: The name of the log.
            line: What to write, as plain JSON.
        """
        self.append_bytes(log, json.dumps(line).encode() + b"\n")

    def append_bytes(self, log: str, data: bytes) -> None:
        """Like `append`, for a binary log such as `tensorboard/events.tfevents`.

        Args:
            log: The name of the log.
            data: What to write.
        """
        self._artifacts.append(log, data)

    @contextmanager
    def create(self, path: str) -> Iterator[CheckedWriter]:
        """Write a part file such as `evaluation/train/…`. The next snapshot commits it.

        Args:
            path: Its path in the directory.
        """
        self._require_restored()
        with self._artifacts.create(path) as writer:
            yield writer

    @contextmanager
    def create_in_background(self, path: str) -> Iterator[CheckedWriter]:
        """Like `create`, but without waiting for the disk; the next snapshot, or `finish`, waits for it.

        Args:
            path: Its path in the directory.
        """
        self._require_restored(is_held=False)  # that is checked when the file is complete
        with self._artifacts.create_in_background(path) as writer:
            yield writer

    def write_state(self, prefix: str, tree: object) -> None:
        """Write a state such as `best/…`. The next snapshot commits it.

        Args:
            prefix: The folder of its files, in the directory.
            tree: The state, as in `save`.
        """
        for path, record in write_state(self._store, prefix, tree, self._require_restored().check).items():
            self._artifacts.files.add(path, record)

    def copy(self, old: str, new: str) -> None:
        """Copy a file that `create` or `write_state` wrote, if there is one of that name.

        Args:
            old: Its path in the directory.
            new: The path of the copy.
        """
        self._require_restored()
        self._artifacts.copy(old, new)

    def drop(self, path: str) -> None:
        """Take such a file out of the result. It is removed when no snapshot needs it.

        Args:
            path: Its path in the directory.
        """
        self._require_restored()
        self._artifacts.drop(path)

    def commit(self, **values: Any) -> None:
        """Set attributes of the directory, fenced by the lease; for stages with their own commits."""
        self._require_restored().commit(**values)

    def write_params(self, ledger: Mapping[str, Any]) -> None:
        """Write `params.json`, the ledger of parameters that were read.

        Args:
            ledger: The ledger as plain JSON.
        """
        self._require_lease()
        write_file(self._store, PARAMS, dump_config(ledger).encode())

    def write_signature(self, signature: bytes) -> None:
        """Write `signature.json`: what turns raw rows into the model's inputs.

        Args:
            signature: The text of the file.
        """
        self._require_lease()
        write_file(self._store, SIGNATURE, signature)

    def write_start(self, start: bytes) -> None:
        """Write `start.json`: what a model started from.

        Args:
            start: The text of the file.
        """
        self._require_lease()
        write_file(self._store, START, start)

    def finish(self, tree: object | None, position: Any, files: Mapping[str, FileRecord] | None = None) -> None:
        """Write the final model and commit the result. Nothing can be written after it.

        Args:
            tree: The state of the final model; None if the result has no model.
            position: Where the run ended.
            files: The records of further files that belong to the result.
        """
        lease = self._require_restored()
        self._artifacts.join()
        model = write_state(self._store, "model", tree, lease.check) if tree is not None else {}
        inventory = {**self._artifacts.files.files, **model, **(files or {}), **self._origin_records()}
        text = json.dumps({path: asdict(record) for path, record in sorted(inventory.items())}, indent=1)
        record = write_checked(self._store, INVENTORY, text.encode(), lease.check)
        lease.commit(**{FINISHED: {"inventory": asdict(record), "position": position}})
        lease.stop_beating()
        _clean_after_finish(self.directory, inventory)
        self._update_status("finished", position=position)

    def _origin_records(self) -> dict[str, FileRecord]:
        """The records of what the result is made from: config, code, environment, ledger."""
        changes = range(1, len(self.directory.code_changes) + 1)
        scripts = [SCRIPT, *(archive_name(SCRIPT, number) for number in changes)]
        folders = [ALL_FILES, *(f"{ALL_FILES}.{number}" for number in changes)]
        names = [CONFIG, ENVIRONMENT, LINEAGE, PARAMS, SIGNATURE, START, *scripts, *folders]
        paths = [entry.path for name in names for entry in self._store.list(name)]
        return {path: FileRecord.of(self._store.read(path)) for path in paths}

    def forget(self) -> None:
        """Leave no result behind: when the `with` block ends, remove what was made. For a run that failed before its
        first step, so that a corrected config can use the directory."""
        self._require_lease()
        self._is_forgotten = True

    # The beginning and the end

    def create_or_check(self, accept_script: bool) -> None:
        """Create the directory, or check that it belongs to this plan.

        Args:
            accept_script: Whether to accept a script that differs from the directory's.
        """
        self._store.sweep()
        if not self.directory.is_created:
            self._create()
            self._update_status("created")
        else:
            self.notes += check_config(self.directory, self._plan)
            self.notes += settle_code(self.directory, self._plan, self._require_lease(), accept_script=accept_script)
            changes = changed_environment(self.directory.environment, capture_environment())
            self.notes += [f"changed since this run started, so results may differ: {change}" for change in changes]
        remove_uncommitted(self._store, committed_snapshots(self._store))

    def _create(self) -> None:
        for name, data in self._plan.code_files.items():
            write_file(self._store, name, data)
        environment = json.dumps(capture_environment(self._plan.code_folder), indent=2)
        write_file(self._store, ENVIRONMENT, environment.encode() + b"\n")
        write_file(self._store, LINEAGE, self._plan.lineage.to_bytes())
        self._store.create_if_absent(CONFIG, dump_config(self._plan.config).encode())

    def start(self, heartbeat_seconds: float | None) -> None:
        """Mark the directory as running, and keep its heartbeat going.

        Args:
            heartbeat_seconds: From one heartbeat to the next. None: no heartbeat.
        """
        self._update_status("running")
        if heartbeat_seconds is not None:
            self._require_lease().keep_beating(self._update_status, heartbeat_seconds)

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
            if self._is_forgotten:
                self._remove_all()
            elif not self.directory.is_finished:
                is_stop = error is None or isinstance(error, Stopped | KeyboardInterrupt)
                self._record_end("stopped", None) if is_stop else self._record_end("failed", error)
        finally:
            self._lease.release()
            self._lease = None

    def _remove_all(self) -> None:
        """The store's own folder stays: its epoch keeps late writers out."""
        lease = self._require_lease()
        self._store.remove(CONFIG)  # first: without it the directory counts as empty
        lease.commit(**{SNAPSHOTS_ATTRIBUTE: [], "script_changes": [], COPY: None})
        for name in (LINEAGE, ENVIRONMENT, PARAMS, SIGNATURE, START, SCRIPT, STATUS):
            self._store.remove(name)
        for name in (ALL_FILES, SNAPSHOTS, *ROOTS):
            self._store.remove_tree(name)

    def _record_end(self, state: State, error: BaseException | None) -> None:
        described = None
        if error is not None:
            notes = "".join(f" ({note})" for note in getattr(error, "__notes__", ()))
            described = {"type": type(error).__name__, "message": f"{error}{notes}"}
        try:
            self._require_lease()
            self._update_status(state, error=described)
        except Exception as failure:
            if error is None:
                raise
            error.add_note(f"status.json could not be written: {failure}")

    def _update_status(self, state: State | None = None, **changes: Any) -> None:
        with self._status_lock:
            lease = self._require_lease()
            self._status = replace(self._status, state=state or self._status.state, holder=lease.holder, **changes)
            self._status.write(self._store)

    def _require_restored(self, *, is_held: bool = True) -> Lease:
        if not self._is_restored and self._lease is not None:
            raise Conflict(f"{self.directory.name}: call restore() before writing")
        return self._require_lease(is_held=is_held)

    def _require_lease(self, *, is_held: bool = True) -> Lease:
        """The lease; `is_held` reads the directory's attributes to check that nobody took it over."""
        if self._lease is None:
            if not self.directory.is_finished:
                raise Conflict(f"{self.directory.name} is closed, because its with block has ended. Call begin() again")
            raise Conflict(f"{self.directory.name} is finished and is never overwritten. Use a new directory")
        if is_held:
            self._lease.check()
        return self._lease


def begin(
    directory: ResultDirectory,
    plan: ResultPlan,
    *,
    accept_script: bool = False,
    heartbeat_seconds: float | None = HEARTBEAT_SECONDS,
) -> OpenResult:
    """Create a result directory, or resume an unfinished one, for a `with` block.

    Args:
        directory: The directory; it need not exist.
        plan: What it is to contain. An existing directory must have the same config and code.
        accept_script: Whether changed code is accepted. The old code is kept beside the new.
        heartbeat_seconds: How often to show that this process is alive; None for no heartbeat.

    Returns:
        The open directory. If the result is finished, `is_finished` is true and there is nothing to do.

    Raises:
        Conflict: The directory belongs to another config or script.
        LeaseHeld: Another process works in it.
        NotAResult: It contains files that Samovar did not make.

    Example:
        >>> from samovar.store import LocalStore
        >>> with begin(ResultDirectory(LocalStore("models/sums")), ResultPlan("sums", {"count": 3})) as result:
        ...     if not result.is_finished:
        ...         result.restore()
        ...         result.finish({"total": 6}, position=3)
    """
    refuse_foreign(directory)
    refuse_partial(directory)
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
    result.notes = [*describe_new_code(directory, plan), *check_config(directory, plan)]
    if _was_killed_after_finish(directory):
        with take_lease(directory.store) as lease:
            directory.store.sweep()
            _clean_after_finish(directory, directory.inventory())
            Status("finished", plan.kind, lease.holder, position=directory.finish.position).write(directory.store)
    return result


def _was_killed_after_finish(directory: ResultDirectory) -> bool:
    status, lease = directory.status, directory.lease
    says_finished = status is not None and status.state == "finished"
    has_late_files = bool(directory.store.list(SNAPSHOTS))  # of a process that was replaced
    return not lease.is_held and (lease.holder is not None or not says_finished or has_late_files)


def _clean_after_finish(directory: ResultDirectory, inventory: Mapping[str, FileRecord]) -> None:
    """Remove what only an unfinished run needs: snapshots, segments of logs, and predictions and states of epochs that
    are neither the last nor the best."""
    directory.store.remove_tree(SNAPSHOTS)
    for entry in (*directory.store.list("evaluation"), *directory.store.list(BEST)):
        if entry.path not in inventory:
            directory.store.remove(entry.path)
    for folder in sorted({entry.path.rpartition("/")[0] for entry in directory.store.list("logs")} - {"logs"}):
        if not any(path.startswith(f"{folder}/") for path in inventory):
            directory.store.remove_tree(folder)
