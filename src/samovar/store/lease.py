"""Leases: the right to work in a directory, and the fence around its commits. Built on attributes, so every store has
them.

    take    compare-and-set {epoch: old + 1, holder: me}       only one of several processes wins
    commit  compare-and-set {…} while the lease epoch is mine  taking a lease changes the version of the attributes, so
                                                               the commit of a replaced holder fails: it is fenced off

A lease can be taken from a process that is dead, or that has been silent for LEASE_SECONDS. What such a process writes
under the lease of a directory's root, `Store.shut_out_others` stops where the store can. Elsewhere its files must have
names of their own: see `with_epoch`.
"""

import os
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Annotated, Any, Self

from pydantic import Field

from samovar.config.records import Count, check_record
from samovar.errors import LeaseHeld, LeaseLost, SamovarError, StoreError
from samovar.store.base import LEASE_SECONDS, Attributes, Heartbeat, Json, Liveness, Store

HEARTBEAT_SECONDS = 10.0
LEASE = "lease"  # the attribute
_EPOCH = re.compile(r"\.e\d+(?=\.|/|$)", re.ASCII)


def with_epoch(name: str, epoch: int) -> str:
    """A name that no other holder of a lease gives to a file or folder: `000002.e7`.

    What a replaced holder writes late then replaces nothing. The commit names the path.
    """
    return f"{name}.e{epoch}"


def without_epoch(path: str) -> str:
    """The path without epochs: the same in a straight run and in one that was resumed.

    Example:
        >>> without_epoch("segments/000002.e7/0000.parquet")
        'segments/000002/0000.parquet'
    """
    return _EPOCH.sub("", path)


@dataclass(frozen=True)
class Holder:
    """The process that holds, or held, a directory."""

    host: str
    pid: Annotated[int, Field(ge=0, le=2**31)]
    since: str

    @classmethod
    def here(cls) -> Self:
        return cls(socket.gethostname(), os.getpid(), datetime.now(UTC).isoformat(timespec="seconds"))

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host} since {self.since}"


@dataclass(frozen=True)
class LeaseRecord:
    """The attribute `lease`."""

    epoch: Count
    holder: Holder | None
    heartbeat: dict[str, Any] | None = None
    """What `Store.liveness` takes."""


@dataclass(frozen=True)
class LeaseState:
    """A directory's lease as its attributes have it."""

    epoch: int
    """The lease epoch: how often the lease was taken."""
    holder: Holder | None
    liveness: Liveness

    @property
    def is_held(self) -> bool:
        return self.holder is not None and self.liveness == "alive"


def lease_state(store: Store, directory: str = "", attributes: Attributes | None = None) -> LeaseState:
    """The lease of a directory now, without taking it. `attributes` are those of the directory, if known already."""
    return _state_of(store, attributes or store.attributes(directory))


def _state_of(store: Store, attributes: Attributes) -> LeaseState:
    found = attributes.values.get(LEASE)
    if found is None:
        return LeaseState(0, None, "dead")
    record = check_record(LeaseRecord, found, f"{store.name}: the attribute {LEASE!r}")
    if record.holder is None or record.heartbeat is None:
        return LeaseState(record.epoch, None, "dead")
    return LeaseState(record.epoch, record.holder, store.liveness(record.heartbeat))


class Lease:
    """A lease that this process holds, for a `with` block. A forked child cannot use it.

    Example:
        >>> with take_lease(store) as lease:
        ...     lease.commit(color="red")
    """

    def __init__(self, store: Store, directory: str, epoch: int, holder: Holder, heartbeat: Heartbeat) -> None:
        self.epoch = epoch
        self.holder = holder
        self._name = _name(store, directory)
        self._store = store
        self._directory = directory
        self._heartbeat: Heartbeat | None = heartbeat
        self._heart: threading.Thread | None = None
        self._stopping = threading.Event()
        self._heart_error: Exception | None = None
        self._leave: Callable[[], None] = lambda: None

    def shut_out_others(self) -> None:
        """Shut out earlier holders, before anything is read or written; `LeaseLost` if this one is late itself."""
        if self._directory == "":
            self._leave = self._store.shut_out_others(self.check)

    def check(self) -> Attributes:
        """The directory's attributes, if this process still holds the lease; else `LeaseLost`."""
        if self._heart_error is not None:
            raise self._heart_error
        if self._heartbeat is None or os.getpid() != self.holder.pid:
            raise LeaseLost(
                f"lease of epoch {self.epoch} ({self.holder}) used after its release, or in a forked process"
            )
        attributes = self._store.attributes(self._directory)
        if attributes.version == 0:
            raise StoreError(
                f"{self._name}: the folder is missing while {self.holder} works in it. "
                "Was it moved, or its disk unmounted? Bring it back and start again"
            )
        current = attributes.values.get(LEASE, {})
        if current.get("epoch") != self.epoch:
            holder = current.get("holder")
            successor = str(Holder(**holder)) if holder else "another process"
            raise LeaseLost(
                f"{self._name}: {successor} took over the lease (lease epoch {current.get('epoch')} after our "
                f"{self.epoch}), because this process gave no sign of life for {LEASE_SECONDS:.0f} s. "
                "It writes nothing more; the other process continues"
            )
        return attributes

    def commit(self, **values: Json) -> None:
        """Change attributes as the holder: all of them, or none with `LeaseLost`."""
        while True:
            attributes = self.check()
            if self._store.compare_and_set(self._directory, attributes, {**attributes.values, **values}) is not None:
                return

    def beat(self) -> None:
        if self._heartbeat is not None:
            self._heartbeat.beat()

    def keep_beating(self, also: Callable[[], None], seconds: float = HEARTBEAT_SECONDS) -> None:
        """Beat, and call `also`, every few seconds from a thread. The next `check` raises its error, if any."""
        self._heart = threading.Thread(target=self._run_heart, args=(also, seconds), name="lease", daemon=True)
        self._heart.start()

    def _run_heart(self, also: Callable[[], None], seconds: float) -> None:
        while not self._stopping.wait(seconds):
            try:
                self.beat()
                also()
            except SamovarError as error:
                self._heart_error = error
                return

    def stop_beating(self) -> None:
        self._stopping.set()
        if self._heart is not None and self._heart is not threading.current_thread():
            self._heart.join()
        self._heart = None

    def release(self) -> None:
        """Release the directory. Does nothing if the lease was lost or released before."""
        self.stop_beating()
        if self._heartbeat is None or os.getpid() != self.holder.pid:
            return
        self._heart_error = None
        self._heartbeat.stop()  # from here on others may take the lease
        try:
            self.commit(**{LEASE: {"epoch": self.epoch, "holder": None}})
        except LeaseLost:
            pass  # the record of the new holder is right
        finally:
            self._heartbeat = None
            self._leave()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _name(store: Store, directory: str) -> str:
    return f"{store.name}/{directory}" if directory else store.name


def take_lease(store: Store, directory: str = "", above_epoch: int = 0) -> Lease:
    """Take the lease of a directory.

    Args:
        store: The store.
        directory: A directory in it.
        above_epoch: An epoch that the lease must be above, because files of other holders are brought here.

    Raises:
        LeaseHeld: A live process holds it; the message names that process.
    """
    heartbeat = store.heartbeat(directory)
    try:
        while True:
            attributes = store.attributes(directory)
            state = _state_of(store, attributes)
            if state.is_held:
                raise LeaseHeld(
                    f"{_name(store, directory)} is in use by {state.holder}. Wait until that process ends, or stop it"
                )
            holder = Holder.here()
            epoch = max(state.epoch, above_epoch) + 1
            record = {"epoch": epoch, "holder": asdict(holder), "heartbeat": heartbeat.record}
            if store.compare_and_set(directory, attributes, {**attributes.values, LEASE: record}) is not None:
                lease = Lease(store, directory, epoch, holder, heartbeat)
                lease.shut_out_others()
                return lease
    except BaseException:
        heartbeat.stop()
        raise
