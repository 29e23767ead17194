"""One bucket of an object store, through obstore: requests that are repeated until they are answered, and conditional
writes that know whether they won. Knows no directories, attributes or leases.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, TypeVar

from samovar.errors import BadInput, NotFound, StoreError
from samovar.store.failures import Failure, is_obstores
from samovar.store.profiles import find_credentials, find_line_options

T = TypeVar("T")

WORD = "samovarword"  # metadata that names the write which made an object; Azure takes only letters
_PATIENCE_SECONDS = 180.0  # with a server that was reached before; a first request fails within seconds
_FIRST_PATIENCE_SECONDS = 3.0
_MAX_PAUSE_SECONDS = 5.0
_TIMEOUT = timedelta(seconds=60)  # of a request with few bytes
_BULK_TIMEOUT = timedelta(minutes=30)  # of a request that sends a whole file
_STREAM_TIMEOUT = timedelta(minutes=5)  # of one part
PART_BYTES = 32 << 20  # servers take 10,000 parts: 312 GiB
_NUM_PARTS_AT_ONCE = 4


@dataclass(frozen=True)
class Tag:
    """Which content an object has: differs after each write of other bytes."""

    e_tag: str | None
    version: str | None

    @classmethod
    def of(cls, answer: Any) -> "Tag":
        return cls(answer["e_tag"], answer["version"])


@dataclass(frozen=True)
class Written:
    """What is known of the last writes of an object."""

    tag: Tag
    words: Sequence[str]
    """The random words of its last writes, the newest first; none if other code wrote it."""


@dataclass(frozen=True)
class Found(Written):
    """An object."""

    key: str
    size: int
    modified: datetime


@dataclass(frozen=True)
class Content:
    """An object with its bytes, or some of them."""

    found: Found
    data: memoryview


class Bucket:
    """A bucket. Nothing is asked before the first request.

    Args:
        url: `s3://name`, `gs://name`, `az://container` or another form that obstore takes, without a key.
    """

    _runtime_pid: ClassVar[int | None] = None
    """The process whose threads obstore uses. They do not survive a fork, and a request would wait for them forever."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._clients: dict[timedelta, Any] = {}
        self._was_reached = False

    def __reduce__(self) -> tuple[Any, ...]:
        return Bucket, (self.url,)

    # Reading

    def get(self, key: str, start: int = 0, stop: int | None = None) -> Content:
        """The bytes [start, stop) of an object, fewer if it is shorter; `NotFound`."""
        if stop is not None and stop <= start:
            return Content(self._must_find(key), memoryview(b""))

        def request(client: Any) -> Content:
            options: dict[str, Any] = {}
            if stop is not None:
                options["range"] = (start, stop)
            elif start:
                options["range"] = {"offset": start}
            answer = _obstore().get(client, key, options=options)
            return Content(_found(answer.meta, answer.attributes), memoryview(answer.bytes()))

        try:
            return self._ask("read", key, request)
        except _EmptyRange:
            found = self._must_find(key)
            if found.size > start:
                raise StoreError(f"could not read {self.url}/{key}: the server refuses a range inside it") from None
            return Content(found, memoryview(b""))

    def head(self, key: str) -> Found | None:
        """An object without its bytes; None if it does not exist."""

        def request(client: Any) -> Found:
            answer = _obstore().get(client, key, options={"head": True})
            return _found(answer.meta, answer.attributes)

        try:
            return self._ask("read", key, request)
        except NotFound:
            return None

    def _must_find(self, key: str) -> Found:
        found = self.head(key)
        if found is None:
            raise NotFound(f"{self.url}/{key}: no such file")
        return found

    def find(self, prefix: str) -> list[Found]:
        """All objects below a prefix, sorted by key. It ends with a '/', or is empty."""

        def request(client: Any) -> list[Found]:
            stream = _obstore().list(client, prefix.removesuffix("/") or None)
            return [_found(each) for some in stream for each in some]

        return sorted(self._ask("list", prefix, request), key=lambda found: found.key)

    def has_any(self, prefix: str) -> bool:
        """Whether there is an object below a prefix."""

        def request(client: Any) -> bool:
            stream = _obstore().list(client, prefix.removesuffix("/") or None, chunk_size=1)
            return any(True for some in stream for _ in some)

        return self._ask("list", prefix, request)

    def names(self, prefix: str) -> tuple[list[Found], list[str]]:
        """The objects right below a prefix, and the prefixes that are there."""

        def request(client: Any) -> tuple[list[Found], list[str]]:
            answer = _obstore().list_with_delimiter(client, prefix.removesuffix("/") or None)
            return [_found(each) for each in answer["objects"]], list(answer["common_prefixes"])

        return self._ask("list", prefix, request)

    # Writing

    def put(self, key: str, data: Any, is_patient: bool = True) -> None:
        """Create or replace an object, whatever is there."""
        self._ask(
            "write", key, lambda client: _obstore().put(client, key, data, use_multipart=False), is_patient=is_patient
        )

    def put_if(
        self, key: str, data: Any, expected: Tag | None, word: str, look: Callable[[bool], Written | None] | None = None
    ) -> Tag | None:
        """Create an object, or replace the one with this tag: once, and only if nobody was faster.

        An answer may be lost, and a server may answer 409 to a write that neither won nor lost. So whatever is not a
        clear yes is settled by looking at the object. If it names `word`, we won. If it is still what was expected, the
        same write is repeated, which cannot count twice. Otherwise we lost.

        Args:
            key: The object.
            data: Its bytes.
            expected: The tag that it must have; None if it must not exist.
            word: A new random word, which this write alone has.
            look: Finds the object and its words; by default those of its metadata. It is told whether an answer was
                lost.

        Returns:
            The tag of our write; None if it lost. If it won and was replaced since, a tag that nothing has.
        """
        mode = "create" if expected is None else _as_version(expected)
        find = look or (lambda was_lost: self.head(key))
        was_lost = False

        def request(client: Any) -> Tag | None:
            nonlocal was_lost
            try:
                return Tag.of(
                    _obstore().put(client, key, data, attributes={WORD: word}, mode=mode, use_multipart=False)
                )
            except Exception as error:
                if not is_obstores(error):
                    raise
                failure = Failure(error)
                is_replaced = failure.is_missing and expected is not None
                if not (failure.may_pass or failure.is_conflict or is_replaced):
                    raise
                was_lost |= failure.may_pass
                try:
                    found = find(was_lost)
                except StoreError:
                    raise error from None  # the failed write is what counts
                if found is not None and word in found.words:
                    return found.tag if found.words[0] == word else Tag(None, None)
                if (found.tag if found else None) != expected:
                    return None
                raise

        is_large = memoryview(data).nbytes > PART_BYTES
        return self._ask("write", key, request, _BULK_TIMEOUT if is_large else _TIMEOUT, is_conflict_final=False)

    def put_stream(self, key: str, parts: Iterable[bytes]) -> None:
        """Create or replace a large object, part by part. If `parts` raises, nothing appears.

        There are no conditions, so nobody else may write this key."""
        client = self._client(_STREAM_TIMEOUT)
        size = {"chunk_size": PART_BYTES, "max_concurrency": _NUM_PARTS_AT_ONCE}
        try:
            _obstore().put(client, key, parts, use_multipart=True, **size)
        except Exception as error:
            if not is_obstores(error):
                raise
            raise self._as_store_error("write", key, Failure(error)) from None

    def delete(self, keys: Sequence[str]) -> None:
        """Delete objects, if they exist."""

        def request(client: Any) -> None:
            with suppress(FileNotFoundError):
                _obstore().delete(client, list(keys))

        if keys:
            self._ask("remove", keys[0], request)

    # Asking

    def _client(self, timeout: timedelta = _TIMEOUT) -> Any:
        pid = os.getpid()
        if Bucket._runtime_pid not in (None, pid):
            raise StoreError(
                f"{self.url}: this process was forked from one that uses object stores, and cannot use them itself. "
                "Start processes with the method 'spawn'"
            )
        Bucket._runtime_pid = pid
        if timeout not in self._clients:
            self._clients[timeout] = self._connect(timeout)
        return self._clients[timeout]

    def _connect(self, timeout: timedelta) -> Any:
        # We repeat requests ourselves: we can be interrupted, and know what is safe to repeat. But obstore repeats the
        # parts of a stream.
        retries = {"max_retries": 10 if timeout == _STREAM_TIMEOUT else 0}
        options = {"timeout": timeout, "connect_timeout": timedelta(seconds=10), **find_line_options(self.url)}
        credentials = find_credentials(self.url)
        try:
            return _obstore().store.from_url(self.url, client_options=options, retry_config=retries, **credentials)
        except Exception as error:
            if not is_obstores(error):
                raise
            raise BadInput(f"{self.url} cannot be opened: {str(error).partition(chr(10))[0]}") from None

    def _ask(
        self,
        verb: str,
        key: str,
        request: Callable[[Any], T],
        timeout: timedelta = _TIMEOUT,
        *,
        is_conflict_final: bool = True,
        is_patient: bool = True,
    ) -> T:
        """Repeat a request, with pauses that grow, until it is answered, or fails for good, or patience ends."""
        client = self._client(timeout)
        started, pause = time.monotonic(), 0.1
        while True:
            try:
                answer = request(client)
            except Exception as error:
                if not is_obstores(error):
                    raise
                failure = Failure(error)
                patience = _PATIENCE_SECONDS if self._was_reached and is_patient else _FIRST_PATIENCE_SECONDS
                is_moving = (
                    verb == "list" and failure.is_missing and self._was_reached
                )  # SeaweedFS, folders that vanish
                may_pass = failure.may_pass or is_moving or (failure.is_conflict and not is_conflict_final)
                if not may_pass or time.monotonic() - started > patience:
                    raise self._as_store_error(verb, key, failure) from None
            else:
                self._was_reached = True
                return answer
            time.sleep(pause)
            pause = min(pause * 2, _MAX_PAUSE_SECONDS)

    def _as_store_error(self, verb: str, key: str, failure: Failure) -> Exception:
        where = f"{self.url}/{key}" if key else self.url
        if failure.is_empty_range:
            return _EmptyRange()
        if failure.is_missing:
            return NotFound(f"{where}: no such file")
        kind = AccessRefused if failure.is_refused else StoreError
        return kind(f"could not {verb} {where}: {failure.explain(_endpoint(self.url))}")


class AccessRefused(StoreError):
    """The credentials may not do this."""


class _EmptyRange(Exception):
    """A range that starts behind the end of an object."""


def _obstore() -> Any:
    try:
        import obstore
        import obstore.store
    except ImportError:
        raise BadInput("object stores need a package. Type: pip install 'samovar[cloud]'") from None
    return obstore


def _endpoint(url: str) -> str:
    """The variable that names the server of a URL."""
    scheme = url.partition(":")[0]
    return {"s3": "AWS_ENDPOINT_URL", "gs": "GOOGLE_BASE_URL"}.get(scheme, "AZURE_STORAGE_ENDPOINT")


def _found(meta: Any, attributes: Any = None) -> Found:
    word = (attributes or {}).get(WORD)
    return Found(Tag.of(meta), (word,) if word else (), meta["path"], meta["size"], meta["last_modified"])


def _as_version(tag: Tag) -> dict[str, str]:
    return {key: value for key, value in (("e_tag", tag.e_tag), ("version", tag.version)) if value is not None}
