"""A store in a local folder. Knows nothing of what the files mean.

    <root>/…                              the files
    <root>/.samovar/tmp/<process>-<n>     unfinished files; those of a lease holder are in a folder of its own
    <root>/.samovar/attributes/…/@<n>     one file per change of attributes; the highest number is current
    <root>/.samovar/locks/<process>-<n>   heartbeats of lease holders (heartbeat.py)
    <root>/.samovar/open/<name>           growing ends of logs

A change of attributes is a hard link to the next number, which fails if another process was first.

A lease holder publishes and removes files by renaming them from and to its own folder in tmp. A successor first moves
that folder away, in one step, so that a process which sleeps through its replacement can change nothing when it wakes.

The folder may come from a stranger: no symbolic link below the root is followed, and only regular files are opened.
"""

import errno
import os
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from samovar.config.places import as_path
from samovar.errors import AlreadyExists, BadPath, NotFound
from samovar.native import map_file
from samovar.store.base import (
    CHUNK_BYTES,
    RESERVED,
    Attributes,
    Entry,
    Fence,
    Heartbeat,
    Json,
    Liveness,
    Store,
    Tail,
    Writer,
    split_file,
    split_path,
)
from samovar.store.disk import Disk, PendingFile, store_error
from samovar.store.heartbeat import Clock, LocalHeartbeat, find_liveness
from samovar.store.process import ScratchNames, abandoned_files
from samovar.store.reading import (
    encode_attributes,
    list_versions,
    open_regular,
    read_attributes,
    read_range,
    size_of_tree,
    version_name,
)

# Old versions of attributes are removed, so a stale writer could link a number that was used and removed before. It
# then finds numbers more than this ahead of its own, and knows that it lost.
KEPT_VERSIONS = 64
_NUM_READS = 1000  # of attributes that change between the listing and the reading


class LocalStore(Store):
    """A store of all files below `root`. The first write creates the folder; the constructor touches nothing.

    Args:
        root: The folder.
        disk: The system calls that change the disk; tests pass disks that fail.
        clock: For heartbeats.

    Example:
        >>> store = LocalStore("place")
        >>> store.create_if_absent("notes/a.txt", b"tea")
        >>> store.read("notes/a.txt")
        b'tea'
    """

    can_map = True

    def __init__(self, root: Path | str, disk: Disk | None = None, clock: Clock | None = None) -> None:
        self.root = as_path(root, "the directory")
        self.name = str(root)
        self._disk = disk or Disk()
        self._clock = clock or Clock()
        self._names = ScratchNames()
        self._root_existed = False
        self._holder: _HolderFolder | None = None

    # Files

    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        with self._reading(path) as descriptor:
            return read_range(descriptor, start, stop)

    def map(self, path: str) -> memoryview:
        with self._reading(path) as descriptor:
            if os.fstat(descriptor).st_size == 0:
                return memoryview(bytearray())  # an empty file cannot be mapped
            return map_file(descriptor, str(self.root / path))

    def chunks(self, path: str) -> Iterator[bytes | memoryview]:
        whole = self.map(path)
        for start in range(0, len(whole), CHUNK_BYTES):
            yield whole[start : start + CHUNK_BYTES]

    def etag(self, path: str) -> Hashable:
        with self._as_store_error("read", path):
            found = self._file(path).stat()
        return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns

    def create(self, path: str, fence: Fence | None = None) -> Writer:
        target = self._file(path)
        return _LocalWriter(self, path, target, fence)

    def create_if_absent(self, path: str, data: bytes) -> None:
        target = self._file(path)
        with self._as_store_error("create", path, is_fenced=True):
            self.make_folder(target.parent)
            if not self._link_new(target, data, self.new_file()):
                raise AlreadyExists(f"{target} already exists")

    def list(self, prefix: str = "") -> Sequence[Entry]:
        top = self._place(prefix)
        with self._as_store_error("list", prefix):
            if top.is_file():
                return [Entry(prefix, top.stat().st_size)]
            return sorted(self._walk(top), key=lambda entry: entry.path)

    def _walk(self, folder: Path) -> Iterator[Entry]:
        try:
            found = list(os.scandir(folder))
        except (FileNotFoundError, NotADirectoryError):
            return
        for item in found:
            if item.name == RESERVED and folder == self.root:
                continue
            if item.is_dir(follow_symlinks=False):
                yield from self._walk(Path(item.path))
            elif item.is_file(follow_symlinks=False):
                path = Path(item.path).relative_to(self.root).as_posix()
                with suppress(FileNotFoundError):  # removed since the listing
                    yield Entry(path, item.stat(follow_symlinks=False).st_size)

    def exists(self) -> bool:
        return os.path.lexists(self.root)

    def names(self, directory: str = "") -> Mapping[str, bool]:
        with self._as_store_error("list", directory):
            try:
                found = {item.name: item.is_dir(follow_symlinks=False) for item in os.scandir(self._place(directory))}
            except (FileNotFoundError, NotADirectoryError):
                return {}
        return {name: found[name] for name in sorted(found) if directory or name != RESERVED}

    def sync(self, directory: str) -> None:
        with self._as_store_error("sync", directory):
            for folder, folders, names in os.walk(self._place(directory), topdown=False):
                place = Path(folder).relative_to(self.root).as_posix()
                files = [self._file(f"{place}/{name}") for name in [*folders, *names]][len(folders) :]  # refuses links
                for file in files:
                    self._sync_file(file)
                self._disk.fsync_folder(Path(folder))

    def _sync_file(self, file: Path) -> None:
        descriptor = open_regular(file)
        try:
            self._disk.fsync(descriptor)
        finally:
            self._disk.close(descriptor)

    def remove(self, path: str) -> None:
        target = self._file(path)
        with self._as_store_error("remove", path, is_fenced=True):
            if target.is_dir():
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(target))
            self._remove_item(target)

    def remove_tree(self, path: str) -> None:
        with self._as_store_error("remove", path, is_fenced=True):
            for folder in (self._place(path), self._attribute_folder(path)):
                if not folder.is_dir():
                    continue
                if folder == self.root:
                    for item in sorted(os.scandir(folder), key=lambda item: item.name):
                        if item.name != RESERVED:
                            self._remove_item(Path(item.path))
                else:
                    self._remove_item(folder)
                self._disk.fsync_folder(folder if folder == self.root else folder.parent)

    def _remove_item(self, path: Path) -> None:
        taken = self._take_away(path)
        if taken is not None:
            self._remove_scratch(taken)

    def _take_away(self, path: Path) -> Path | None:
        """Move a file or folder into the holder's folder, to be removed there; None if it does not exist."""
        if self._holder is None:
            return path if os.path.lexists(path) else None
        taken = self._holder.path / self._names.next()
        try:
            self._disk.replace(path, taken)
        except FileNotFoundError:
            if self._holder.path.is_dir():
                return None
            raise
        return taken

    def _remove_scratch(self, path: Path) -> None:
        """Remove a file, or a folder with everything in it."""
        if path.is_dir() and not path.is_symlink():
            for item in sorted(os.listdir(path)):
                self._remove_scratch(path / item)
            self._disk.rmdir(path)
        else:
            self._disk.unlink(path)

    # Attributes

    def attributes(self, directory: str = "") -> Attributes:
        folder = self._attribute_folder(directory)
        with self._as_store_error("read the attributes of", directory):
            for _ in range(_NUM_READS):
                versions = list_versions(folder)
                if not versions:
                    return Attributes()
                with suppress(FileNotFoundError):  # removed since the listing: there are newer ones
                    return read_attributes(folder / version_name(versions[-1]), versions[-1])
            raise _gone(folder)

    def compare_and_set(self, directory: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
        folder = self._attribute_folder(directory)
        version = expected.version + 1
        with self._as_store_error("set attributes of", directory):
            self.make_folder(folder)
            file = self.new_file(is_holders=False)
            if not self._link_new(folder / version_name(version), encode_attributes(values), file):
                return None
            versions = list_versions(folder)
            if not versions:
                raise _gone(folder)
            if versions[-1] - version >= KEPT_VERSIONS:
                self._disk.unlink(folder / version_name(version))
                return None
            for old in versions:
                if old <= version - KEPT_VERSIONS:
                    with suppress(FileNotFoundError):  # another process removes them too
                        self._disk.unlink(folder / version_name(old))
        return Attributes(version, dict(values))

    # Leases, logs and leftovers

    def tail(self, name: str) -> Tail:
        path = self._tail_path(name)
        with self._as_store_error("open", name):
            self.make_folder(path.parent)
            with suppress(FileNotFoundError):
                self._disk.unlink(path)  # a replaced holder may still write to the old file, which has no name now
            return _LocalTail(self, path, self._disk.create(path))

    def read_tail(self, name: str) -> bytes:
        with self._as_store_error("read", name):
            try:
                descriptor = open_regular(self._tail_path(name))
            except (FileNotFoundError, NotADirectoryError):
                return b""
            try:
                return read_range(descriptor, 0, None)
            finally:
                os.close(descriptor)

    def _tail_path(self, name: str) -> Path:
        return self._own("open", "--".join(split_file(name)))

    def heartbeat(self, directory: str) -> Heartbeat:
        with self._as_store_error("take the lease of", directory):
            folder = self._own("locks")
            self.make_folder(folder)
            return LocalHeartbeat(folder / self._names.next(), self._disk, self._clock)

    def shut_out_others(self, check: Fence) -> Callable[[], None]:
        with self._as_store_error("take the lease of", ""):
            scratch = self._own("tmp")
            self.make_folder(scratch)
            # The order matters. Whoever takes the lease before the check makes it fail; whoever takes it after it finds
            # our folder, and has none yet that we could have listed.
            others = [Path(item.path) for item in os.scandir(scratch) if item.is_dir(follow_symlinks=False)]
            holder = _HolderFolder(scratch / self._names.next(), check)
            self._disk.mkdir(holder.path)
            check()
            self._holder = holder
            for other in sorted(others):
                with suppress(FileNotFoundError):
                    self._remove_item(other)

        def leave() -> None:
            if self._holder is holder:
                self._holder = None
            with suppress(OSError):  # removed by the next holder
                self._remove_scratch(holder.path)

        return leave

    def liveness(self, record: Mapping[str, Json]) -> Liveness:
        return find_liveness(self._own("locks"), record, self._clock)

    def leftovers(self) -> Sequence[Entry]:
        with self._as_store_error("list", ""):
            return [
                Entry(path.relative_to(self.root).as_posix(), size)
                for path in self._abandoned()
                if (size := size_of_tree(path)) is not None
            ]

    def _abandoned(self) -> Sequence[Path]:
        tails = self._own("open")
        left = [
            *abandoned_files(self._own("tmp"), include_other_machines=True),
            *abandoned_files(self._own("locks"), include_other_machines=True),
            *(sorted(tails.iterdir()) if tails.is_dir() else []),
        ]
        return [path for path in left if self._holder is None or path != self._holder.path]

    def sweep(self) -> None:
        with self._as_store_error("sweep", ""):
            for folder, _, _ in os.walk(self.root):
                self._disk.fsync_folder(Path(folder))  # names that a killed process left may not be durable
            for path in self._abandoned():
                with suppress(FileNotFoundError):
                    self._remove_scratch(path)

    def erase(self) -> None:
        with self._as_store_error("remove", ""), suppress(FileNotFoundError):
            self._remove_scratch(self.root)
            self._disk.fsync_folder(self.root.parent)

    # For the writers below

    def make_folder(self, folder: Path) -> None:
        """Make a folder and its parents, durably; but never again a root that existed and has vanished.

        Args:
            folder: Its path on the disk.
        """
        root_existed = self._root_existed  # read first, or another thread could create it in between
        if folder.is_dir():
            self._root_existed |= folder.is_relative_to(self.root)
            return
        if folder == self.root and root_existed:
            raise _gone(folder)
        self.make_folder(folder.parent)
        try:
            self._disk.mkdir(folder)
        except FileExistsError:
            if not folder.is_dir():
                raise
        self._disk.fsync_folder(folder.parent)

    def new_file(self, is_holders: bool = True) -> PendingFile:
        """An unfinished file. Once the lease is lost, the holder's can be neither made nor published.

        Args:
            is_holders: Whether it is made under the lease.
        """
        if self._holder is not None and is_holders:
            return PendingFile(self._holder.path / self._names.next(), self._disk)
        folder = self._own("tmp")
        self.make_folder(folder)
        return PendingFile(folder / self._names.next(), self._disk)

    def _link_new(self, target: Path, data: bytes, file: PendingFile) -> bool:
        """Create a small file; False if the name is taken."""
        try:
            file.write(data)
            file.publish(target, replace=False)
        except FileExistsError:
            return False
        finally:
            file.discard()
        return True

    @contextmanager
    def _as_store_error(self, verb: str, path: str, is_fenced: bool = False) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            holder = self._holder
            if is_fenced and holder is not None and self.root.exists() and not holder.path.exists():
                holder.check()  # raises if a successor has moved the folder away
            raise store_error(error, verb, self.root / path, self.root) from error

    @contextmanager
    def _reading(self, path: str) -> Iterator[int]:
        target = self._file(path)
        with self._as_store_error("read", path):
            try:
                descriptor = open_regular(target)
            except (FileNotFoundError, NotADirectoryError) as error:
                raise NotFound(f"{target}: no such file") from error
            try:
                yield descriptor
            finally:
                os.close(descriptor)

    def _place(self, path: str) -> Path:
        return self._descend(split_path(path))

    def _file(self, path: str) -> Path:
        return self._descend(split_file(path))

    def _descend(self, parts: tuple[str, ...]) -> Path:
        """The place of a path on the disk, after checking that no link on the way leads out of the root."""
        place = self.root
        for part in parts:
            place = place / part
            if place.is_symlink():
                raise BadPath(
                    f"{place} is a symbolic link, which could lead out of the store. Put the files themselves there"
                )
        return place

    def _own(self, *parts: str) -> Path:
        """A folder of the store itself."""
        return self._descend((RESERVED, *parts))

    def _attribute_folder(self, directory: str) -> Path:
        return self._own("attributes", *split_path(directory))


@dataclass(frozen=True)
class _HolderFolder:
    """Where the holder of the lease writes unfinished files. It is gone once the lease is taken over."""

    path: Path
    check: Fence


def _gone(folder: Path) -> OSError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), str(folder))


class _LocalWriter(Writer):
    def __init__(self, store: LocalStore, path: str, target: Path, fence: Fence | None) -> None:
        self._store = store
        self._path = path
        self._target = target
        self._fence = fence
        self._is_open = True
        with store._as_store_error("create", path, is_fenced=True):
            self._file = store.new_file()

    def write(self, data: bytes | memoryview) -> None:
        try:
            with self._store._as_store_error("write", self._path):
                self._file.write(data)
        except BaseException:
            self.abort()
            raise

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            with self._store._as_store_error("write", self._path, is_fenced=True):
                self._file.publish(self._target, replace=True, before=self._prepare)

    def _prepare(self) -> None:
        if self._fence is not None:
            self._fence()
        self._store.make_folder(self._target.parent)

    def abort(self) -> None:
        self._is_open = False
        self._file.discard()


class _LocalTail(Tail):
    def __init__(self, store: LocalStore, path: Path, descriptor: int) -> None:
        self._store = store
        self._path = path
        self._descriptor: int | None = descriptor

    def append(self, data: bytes) -> None:
        assert self._descriptor is not None, "append after close"
        with self._store._as_store_error("write", self._path.name):
            self._store._disk.write_all(self._descriptor, data)

    def content(self) -> bytes:
        assert self._descriptor is not None, "content after close"
        with self._store._as_store_error("read", self._path.name):
            return read_range(self._descriptor, 0, None)  # not by name: a new holder may have taken that

    def close(self, keep: bool = False) -> None:
        if self._descriptor is None:
            return
        descriptor, self._descriptor = self._descriptor, None
        self._store._disk.close(descriptor)
        if not keep:
            with self._store._as_store_error("close", self._path.name), suppress(FileNotFoundError):
                self._store._disk.unlink(self._path)
