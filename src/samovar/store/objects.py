"""A store in a bucket of S3, Google Cloud Storage, Azure or a server that speaks their protocols.

    <root>/…                               the files
    <root>/.samovar/attributes/…/@current  one object per directory: version, words, values
    <root>/.samovar/heartbeats/<word>      put again at each beat of a lease holder
    <root>/.samovar/open/<name>            the last lines of a growing log
    <root>/.samovar/probe/<word>           asks for the server's time, and whether it obeys conditions

How it stays exact, though answers get lost, processes sleep, and nothing here can lock:

    a write     carries a condition: nothing has this name yet (If-None-Match), or it still has this tag (If-Match). It
                also carries a random word, in its metadata. If the answer is lost, or is a conflict, the writer looks
                for its word; if everything is as it was, it repeats the write (`Bucket.put_if`).
    attributes  are swapped by tag. Each version has a new word inside, so no two have the same tag, and it keeps the
                words before it: who lost an answer finds out that it won, even if others have won since.
    a holder    checks its lease after it has read the tag that it replaces, and before it writes. A successor that
                writes the file changes the tag, so what the holder sends late is refused.
    a removal   cannot carry a condition. So a holder replaces a file by a tombstone, as above, and nobody deletes it
                before the requests of earlier holders are over. Names with the lease epoch are written by one holder
                only: those are deleted, and large ones are sent in parts, which cannot carry a condition either.
    a sign of   is a heartbeat that is put again. Its age is its Last-Modified against that of a probe, so that only the
    life        server's clock counts. A dead process of this machine is seen at once, any other after 60 s.

Two limits: files of more than 4 GiB need a name with the lease epoch, or a paused holder that was replaced may still
write them; and if a successor writes the very bytes that were there before, S3 gives them the same tag.
"""

import re
from bisect import bisect_right
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property
from itertools import islice
from secrets import token_hex
from typing import Any

import numpy as np

from samovar.errors import AlreadyExists, BadInput, NotFound, StoreError
from samovar.store.base import (
    CHUNK_BYTES,
    LEASE_SECONDS,
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
from samovar.store.bucket import Bucket, Content, Found, Tag
from samovar.store.lease import without_epoch
from samovar.store.object_attributes import read_attributes, refuse_careless_server, swap_attributes
from samovar.store.object_heartbeat import ObjectHeartbeat, find_liveness, server_time
from samovar.store.ranges import cut_range, merge_ranges
from samovar.store.uploads import ObjectTail, ObjectWriter

_URL = re.compile(r"([a-z0-9]+)://([^/]+)/?(.*)")
_SIGNATURE = re.compile(r"[?&](sig|x-amz-signature|x-goog-signature)=", re.IGNORECASE)
_NUM_THREADS = 8  # requests at once, of one store
_READ_AHEAD = 4  # chunks

_TOMBSTONE = b"Removed by Samovar, to be deleted by `samovar gc`: %s\n"
_TOMBSTONE_BYTES = len(_TOMBSTONE % token_hex(8).encode())
_TOMBSTONE_LEASES = 10  # times the lease seconds, and it may be deleted
_REMOVED = "removed-"  # how the word of a tombstone starts


class ObjectStore(Store):
    """A store of all objects below a URL. The constructor asks nothing.

    Args:
        url: `s3://bucket/folder`, or one that starts with gs://, az://, abfs:// or abfss://.
        lease_seconds: How long a holder may be silent until it can be replaced.

    Raises:
        BadInput: It is no such URL, or there is a secret in it.

    Example:
        >>> store = ObjectStore("s3://models/click")
        >>> write_file(store, "notes/first.txt", b"hello")
        >>> store.read("notes/first.txt")
        b'hello'
    """

    def __init__(self, url: object, lease_seconds: float = LEASE_SECONDS) -> None:
        self.name = str(url).rstrip("/")
        if _SIGNATURE.search(self.name):
            raise BadInput(
                f"{self.name.partition('?')[0]}: a URL must not have a signature in it. Set the environment variables "
                "of the object store instead"
            )
        found = _URL.fullmatch(self.name)
        if found is None:
            raise BadInput(f"{self.name!r} is not the URL of an object store. Write it as s3://bucket/folder")
        scheme, bucket, folder = found.groups()
        self._prefix = "".join(f"{part}/" for part in split_path(folder))
        self._bucket = Bucket(f"{scheme}://{bucket}")
        self._lease_seconds = lease_seconds
        self._check: Fence | None = None
        """Raises if the lease of the root is lost; None while this store has none."""
        self._replaced: dict[str, Tag] = {}
        """The tags of files that were replaced here, and probably will be again."""
        self._tails: dict[str, ObjectTail] = {}
        self._obeys_conditions = False

    def __reduce__(self) -> tuple[Any, ...]:
        return ObjectStore, (self.name, self._lease_seconds)

    # Reading

    def read(self, path: str, start: int = 0, stop: int | None = None) -> bytes:
        return bytes(self._get(path, start, stop).data)

    def map(self, path: str) -> memoryview:
        first = self._get(path, 0, CHUNK_BYTES)
        memory = np.empty(first.found.size, np.uint8)  # bytearray would write zeros first
        memory[: len(first.data)] = np.frombuffer(first.data, np.uint8)

        def fill(start: int) -> None:
            data = self._get_same(path, start, first.found).data
            memory[start : start + len(data)] = np.frombuffer(data, np.uint8)

        list(self._threads.map(fill, range(len(first.data), len(memory), CHUNK_BYTES)))
        return memory.data

    def chunks(self, path: str) -> Iterator[bytes | memoryview]:
        first = self._get(path, 0, CHUNK_BYTES)
        if len(first.data):
            yield first.data
        starts = range(len(first.data), first.found.size, CHUNK_BYTES)
        ahead = [self._threads.submit(self._get_same, path, start, first.found) for start in starts[:_READ_AHEAD]]
        for number in range(len(starts)):
            content = ahead.pop(0).result()
            if number + _READ_AHEAD < len(starts):
                ahead.append(self._threads.submit(self._get_same, path, starts[number + _READ_AHEAD], first.found))
            yield content.data

    def read_many(self, path: str, ranges: Sequence[tuple[int, int]]) -> Sequence[bytes | memoryview]:
        merged = merge_ranges(ranges)
        pieces = [cut_range(*each) for each in merged]
        asked = [piece for some in pieces for piece in some]
        if len(asked) == 1:
            answers = iter([self._get(path, *asked[0]).data])
        else:
            answers = self._threads.map(lambda each: self._get(path, *each).data, asked)
        read = [_join(list(islice(answers, len(some)))) for some in pieces]
        starts = [start for start, _ in merged]

        def cut(start: int, stop: int) -> memoryview:
            index = bisect_right(starts, start) - 1
            return read[index][start - starts[index] : stop - starts[index]]

        return [cut(start, stop) if start < stop else b"" for start, stop in ranges]

    def _get(self, path: str, start: int = 0, stop: int | None = None) -> Content:
        content = self._bucket.get(self._key(path), start, stop)
        if _is_removed(content.found):
            raise NotFound(f"{self.name}/{path}: no such file")
        return content

    def _get_same(self, path: str, start: int, whole: Found) -> Content:
        """A chunk of a file that must not have changed."""
        content = self._get(path, start, min(start + CHUNK_BYTES, whole.size))
        if content.found.tag != whole.tag:
            raise StoreError(f"{self.name}/{path} was replaced while it was read. Read it again")
        return content

    def size(self, path: str) -> int | None:
        found = self._head(path)
        return None if found is None else found.size

    def etag(self, path: str) -> Hashable | None:
        found = self._head(path)
        if found is None:
            raise NotFound(f"{self.name}/{path}: no such file")
        return found.tag

    def _head(self, path: str) -> Found | None:
        found = self._bucket.head(self._key(path))
        return None if found is None or _is_removed(found) else found

    def list(self, prefix: str = "") -> Sequence[Entry]:
        folder = self._folder(prefix)
        found = [each for each in self._bucket.find(folder) if not each.key.startswith(self._own())]
        removed = self._removed(found)
        entries = [Entry(each.key[len(self._prefix) :], each.size) for each in found if each.key not in removed]
        if not entries and prefix and (file := self._head(prefix)) is not None:
            return [Entry(prefix, file.size)]
        return sorted(entries, key=lambda entry: entry.path)

    def _removed(self, found: Sequence[Found]) -> set[str]:
        """The keys of tombstones. A listing has no metadata, so each object of that size is asked for its own."""
        suspects = [each.key for each in found if each.size == _TOMBSTONE_BYTES]
        heads = zip(suspects, self._threads.map(self._bucket.head, suspects), strict=True) if suspects else ()
        return {key for key, head in heads if head is None or _is_removed(head)}

    def exists(self) -> bool:
        return self._bucket.has_any(self._prefix)

    def names(self, directory: str = "") -> Mapping[str, bool]:
        folder = self._folder(directory)
        files, folders = self._bucket.names(folder)
        removed = self._removed(files)
        left = [each.key for each in files if each.key not in removed]
        found = {key[len(folder) :]: False for key in left} | {key[len(folder) :]: True for key in folders}
        return {name: found[name] for name in sorted(found) if directory or name != RESERVED}

    # Writing

    def create(self, path: str, fence: Fence | None = None) -> Writer:
        key = self._key(path)
        check = fence or self._check or (lambda: None)
        return ObjectWriter(
            lambda data: self._publish(path, data, check),
            lambda parts: self._bucket.put_stream(key, parts),
            check,
            may_stream=_is_of_one_holder(path),
        )

    def create_if_absent(self, path: str, data: bytes) -> None:
        self._publish(path, data, self._check or (lambda: None), may_replace=False)

    def _publish(self, path: str, data: Any, check: Fence, may_replace: bool = True) -> None:
        key, word = self._key(path), token_hex(8)
        expected = self._replaced.get(path) if may_replace else None
        while True:
            check()  # after the tag was read, see above
            tag = self._bucket.put_if(key, data, expected, word)
            if tag is not None:
                if expected is not None:
                    self._replaced[path] = tag
                return
            found = self._bucket.head(key)
            if found is not None and not may_replace and not _is_removed(found):
                check()
                raise AlreadyExists(f"{self.name}/{path} already exists")
            expected = None if found is None else found.tag

    def remove(self, path: str) -> None:
        key = self._key(path)
        if self._check is None or _is_of_one_holder(path):
            self._delete([key])
            return
        word = token_hex(8)
        while (found := self._head(path)) is not None:
            self._check()
            if self._bucket.put_if(key, _TOMBSTONE % word.encode(), found.tag, _REMOVED + word) is not None:
                return

    def remove_tree(self, path: str) -> None:
        paths = [entry.path for entry in self.list(path) if entry.path != path]
        fenced = [] if self._check is None else [each for each in paths if not _is_of_one_holder(each)]
        list(self._threads.map(self.remove, fenced))
        folder = self._own("attributes", *split_path(path))
        attributes = [found.key for found in self._bucket.find(folder)]
        self._delete([*(self._key(each) for each in paths if each not in set(fenced)), *attributes])

    def _delete(self, keys: Sequence[str]) -> None:
        if self._check is not None:
            self._check()  # after the keys were listed: a successor's are not among them
        self._bucket.delete(keys)

    # Attributes and leases

    def attributes(self, directory: str = "") -> Attributes:
        return read_attributes(self._bucket, self._attribute_key(directory))

    def compare_and_set(self, directory: str, expected: Attributes, values: Mapping[str, Json]) -> Attributes | None:
        key = self._attribute_key(directory)
        if expected.version == 0 and not self._obeys_conditions:
            refuse_careless_server(self._bucket, self._own("probe") + token_hex(8), self.name)
            self._obeys_conditions = True
        return swap_attributes(self._bucket, key, expected, values)

    def heartbeat(self, directory: str) -> Heartbeat:
        return ObjectHeartbeat(self._bucket, self._own("heartbeats"), self._upload_tails)

    def liveness(self, record: Mapping[str, Json]) -> Liveness:
        return find_liveness(self._bucket, self._own("heartbeats"), self._own("probe"), record, self._lease_seconds)

    def shut_out_others(self, check: Fence) -> Callable[[], None]:
        self._check = check

        def leave() -> None:
            if self._check is check:
                self._check = None

        return leave

    # Logs and leftovers

    def tail(self, name: str) -> Tail:
        key = self._tail_key(name)

        def put(data: bytes) -> None:
            with suppress(StoreError):  # people see it later
                self._bucket.put(key, data, is_patient=False)

        def delete() -> None:
            with suppress(StoreError):  # the next holder sweeps it away
                self._bucket.delete([key])

        self._tails[key] = ObjectTail(put, delete)
        return self._tails[key]

    def _upload_tails(self) -> None:
        for tail in list(self._tails.values()):
            tail.upload()

    def read_tail(self, name: str) -> bytes:
        key = self._tail_key(name)
        if key in self._tails and (own := self._tails[key].end()) is not None:
            return own
        try:
            return bytes(self._bucket.get(key).data)
        except NotFound:
            return b""

    def _tail_key(self, name: str) -> str:
        return self._own("open") + "--".join(split_file(name))

    def leftovers(self) -> Sequence[Entry]:
        beats, removed = self._beats(), self._tombstones()
        now = server_time(self._bucket, self._own("probe") + token_hex(8)) if beats or removed else datetime.now(UTC)
        return [Entry(each.key[len(self._prefix) :], each.size) for each in self._find_old(beats, removed, now)]

    def sweep(self) -> None:
        beats = self._beats()
        now = max((beat.modified for beat in beats), default=datetime.now(UTC))  # our own shows the server's time
        self._bucket.delete([each.key for each in self._find_old(beats, self._tombstones(), now)])

    def _find_old(self, beats: Sequence[Found], removed: Sequence[Found], now: datetime) -> Sequence[Found]:
        """A tombstone is needed as long as a request of the holder before may be on its way."""
        return [
            *(found for folder in ("open", "probe") for found in self._bucket.find(self._own(folder))),
            *(beat for beat in beats if (now - beat.modified).total_seconds() > self._lease_seconds),
            *(
                each
                for each in removed
                if (now - each.modified).total_seconds() > _TOMBSTONE_LEASES * self._lease_seconds
            ),
        ]

    def _beats(self) -> Sequence[Found]:
        return self._bucket.find(self._own("heartbeats"))

    def _tombstones(self) -> Sequence[Found]:
        found = [each for each in self._bucket.find(self._prefix) if not each.key.startswith(self._own())]
        removed = self._removed(found)
        return [each for each in found if each.key in removed]

    def erase(self) -> None:
        attributes = self._own("attributes")
        keys = [found.key for found in self._bucket.find(self._prefix)]
        self._bucket.delete([key for key in keys if not key.startswith(attributes)])
        self._bucket.delete([key for key in keys if key.startswith(attributes)])  # last: they keep others out

    # Names

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(_NUM_THREADS, thread_name_prefix="objects")

    def _key(self, path: str) -> str:
        return self._prefix + "/".join(split_file(path))

    def _folder(self, path: str) -> str:
        return self._prefix + "".join(f"{part}/" for part in split_path(path))

    def _own(self, *names: str) -> str:
        """The prefix of the store's own objects."""
        return self._prefix + "".join(f"{name}/" for name in (RESERVED, *names))

    def _attribute_key(self, directory: str) -> str:
        return self._own("attributes", *split_path(directory)) + "@current"


def _join(pieces: list[memoryview]) -> memoryview:
    return pieces[0] if len(pieces) == 1 else memoryview(b"".join(pieces))


def _is_of_one_holder(path: str) -> bool:
    """Whether a name has a lease epoch in it, so that no other holder writes it."""
    return without_epoch(path) != path


def _is_removed(found: Found) -> bool:
    return any(word.startswith(_REMOVED) for word in found.words)
