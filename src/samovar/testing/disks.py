"""Disks that kill, fail or record, for tests of everything that writes through a local store.

KillingDisk    sends SIGKILL to its own process before or after the n-th operation
FailingDisk    fails at the n-th operation with an error number, or because its folder is gone
RecordingDisk  records every operation; `PowerLoss` rebuilds what the disk may contain after a power loss
"""

import errno
import os
import random
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from samovar.store.disk import Disk

OPERATIONS = ("create", "write", "fsync", "replace", "link", "unlink", "mkdir", "rmdir", "fsync_folder")


class WatchedDisk(Disk):
    """A disk that calls `before` and `after` around each operation that changes it."""

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None: ...

    def after(self, operation: str, arguments: tuple[Any, ...], result: Any) -> None: ...


def _watched(operation: str) -> Callable[..., Any]:
    def method(self: WatchedDisk, *arguments: Any) -> Any:
        self.before(operation, arguments)
        result = getattr(Disk, operation)(self, *arguments)
        self.after(operation, arguments, result)
        return result

    return method


for _operation in OPERATIONS:
    setattr(WatchedDisk, _operation, _watched(_operation))


class CountingDisk(WatchedDisk):
    """Counts points: two per operation, one before and one after it."""

    def __init__(self) -> None:
        self.points = 0

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        self.pass_point()

    def after(self, operation: str, arguments: tuple[Any, ...], result: Any) -> None:
        self.pass_point()

    def pass_point(self) -> None:
        self.points += 1


class KillingDisk(CountingDisk):
    """Kills its process at a point. `at_point` does something else instead, such as waiting for a kill from outside."""

    def __init__(self, point: int, at_point: Callable[[], None] | None = None) -> None:
        super().__init__()
        self._point = point
        self._at_point = at_point or (lambda: os.kill(os.getpid(), signal.SIGKILL))

    def pass_point(self) -> None:
        super().pass_point()
        if self.points == self._point:
            self._at_point()


class FailingDisk(WatchedDisk):
    """The n-th operation raises `OSError(number)`; a write first writes half of its bytes. If `vanishing` is given,
    that folder is moved away instead, and every later operation finds it gone."""

    def __init__(self, operation_number: int, number: int, vanishing: Path | None = None) -> None:
        self.operations = 0
        self._fail_at = operation_number
        self._number = number
        self._vanishing = vanishing

    def before(self, operation: str, arguments: tuple[Any, ...]) -> None:
        self.operations += 1
        if self.operations != self._fail_at:
            return
        if self._vanishing is not None:
            shutil.move(self._vanishing, self._vanishing.with_name(self._vanishing.name + ".moved"))
            return
        if operation == "write":
            descriptor, data = arguments
            os.write(descriptor, data[: len(data) // 2])
        raise OSError(self._number, os.strerror(self._number))


class RecordingDisk(WatchedDisk):
    """Records every operation in order, with the bytes written."""

    def __init__(self) -> None:
        self.events: list[tuple[str, tuple[Any, ...]]] = []

    def after(self, operation: str, arguments: tuple[Any, ...], result: Any) -> None:
        if operation == "create":
            self.events.append(("create", (result, *arguments)))
        elif operation == "write":
            descriptor, data = arguments
            self.events.append(("write", (descriptor, bytes(data[:result]))))
        else:
            self.events.append((operation, arguments))


@dataclass
class _File:
    volatile: bytearray = field(default_factory=bytearray)
    durable: bytes = b""


@dataclass
class _Folder:
    now: dict[str, Any] = field(default_factory=dict)
    durable: dict[str, Any] = field(default_factory=dict)
    pending: list[tuple[str, Any]] = field(default_factory=list)

    def put(self, name: str, node: Any) -> None:
        if node is None:
            self.now.pop(name, None)
        else:
            self.now[name] = node
        self.pending.append((name, node))


class PowerLoss:
    """A disk with its cache, rebuilt from recorded operations: only what was fsynced is certain to survive.

    At the power loss, each change of a folder since its last fsync survives or is lost independently, and the bytes
    of each file since its last fsync are cut at a random length.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._top = _Folder()
        self._open: dict[int, _File] = {}

    def apply(self, operation: str, arguments: tuple[Any, ...]) -> None:
        getattr(self, f"_{operation}")(*arguments)

    def write_survivors(self, target: Path, chance: random.Random) -> None:
        """Write what survives the power loss into a new folder."""
        _write_folder(self._top, target, chance)

    def _folder(self, path: Path) -> _Folder:
        node = self._top
        for part in path.relative_to(self._root).parts:
            node = node.now[part]
        assert isinstance(node, _Folder), path
        return node

    def _create(self, descriptor: int, path: Path) -> None:
        self._open[descriptor] = _File()
        self._folder(path.parent).put(path.name, self._open[descriptor])

    def _write(self, descriptor: int, data: bytes) -> None:
        self._open[descriptor].volatile += data

    def _fsync(self, descriptor: int) -> None:
        file = self._open[descriptor]
        file.durable = bytes(file.volatile)

    def _replace(self, source: Path, target: Path) -> None:
        self._link(source, target)
        self._unlink(source)

    def _link(self, source: Path, target: Path) -> None:
        self._folder(target.parent).put(target.name, self._folder(source.parent).now[source.name])

    def _unlink(self, path: Path) -> None:
        self._folder(path.parent).put(path.name, None)

    def _mkdir(self, path: Path) -> None:
        if path != self._root:
            self._folder(path.parent).put(path.name, _Folder())

    def _rmdir(self, path: Path) -> None:
        self._folder(path.parent).put(path.name, None)

    def _fsync_folder(self, path: Path) -> None:
        if not path.is_relative_to(self._root):
            return
        folder = self._folder(path)
        folder.durable = dict(folder.now)
        folder.pending = []


def _write_folder(folder: _Folder, target: Path, chance: random.Random) -> None:
    target.mkdir()
    entries = dict(folder.durable)
    for name, node in folder.pending:
        if chance.random() < 0.5:
            entries[name] = node
    for name, node in entries.items():
        if isinstance(node, _Folder):
            _write_folder(node, target / name, chance)
        elif node is not None:
            (target / name).write_bytes(_after_loss(node, chance))


def _after_loss(file: _File, chance: random.Random) -> bytes:
    if bytes(file.volatile) == file.durable:
        return file.durable
    return bytes(file.volatile[: chance.randint(len(file.durable), len(file.volatile))])


FAULTS = {"full disk": errno.ENOSPC, "no permission": errno.EACCES, "broken disk": errno.EIO}
