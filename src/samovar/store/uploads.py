"""Files that grow, for stores in which an object appears whole: where the bytes wait, and when they are sent. Knows no
names and no protocol.
"""

import mmap
import os
import tempfile
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import IO, Any

from samovar.store.base import Fence, Tail, Writer
from samovar.store.bucket import PART_BYTES

MAX_WHOLE_BYTES = 4 << 30  # servers take 5 GiB in one request
TAIL_BYTES = 64 << 10
_END = b""


class ObjectWriter(Writer):
    """A file that becomes an object on close.

    Args:
        put: Sends the whole file, with a condition; it calls the fence itself.
        put_stream: Sends the parts of a large file, without a condition.
        check: The fence, called before the last part.
        may_stream: Whether a large file is sent while it is written, because nobody else writes this name. Else it
            waits in a temporary file.
    """

    def __init__(
        self, put: Callable[[Any], None], put_stream: Callable[[Iterator[bytes]], None], check: Fence, may_stream: bool
    ) -> None:
        self._put = put
        self._put_stream = put_stream
        self._check = check
        self._may_stream = may_stream
        self._buffer = bytearray()
        self._stream: _Stream | None = None
        self._file: IO[bytes] | None = None
        self._is_open = True

    def write(self, data: bytes | memoryview) -> None:
        assert self._is_open, "write after the end"
        rest = memoryview(data).cast("B")
        try:
            while rest:
                room = PART_BYTES - len(self._buffer)
                self._buffer += rest[:room]
                rest = rest[room:]
                if len(self._buffer) == PART_BYTES:
                    self._pass_on()
        except BaseException:
            self.abort()
            raise

    def _pass_on(self) -> None:
        part, self._buffer = self._buffer, bytearray()
        if self._may_stream:
            self._stream = self._stream or _Stream(self._put_stream, self._check)
            self._stream.send(bytes(part))
        else:
            self._file = self._file or tempfile.TemporaryFile()  # noqa: SIM115 closed by `close` or `abort`
            self._file.write(part)

    def close(self) -> None:
        if not self._is_open:
            return
        self._is_open = False
        if self._stream is not None:
            self._stream.send(bytes(self._buffer))
            self._stream.finish()
        elif self._file is not None:
            with self._file as file:
                file.write(self._buffer)
                file.flush()
                self._send_file(file)
        else:
            self._put(bytes(self._buffer))

    def _send_file(self, file: IO[bytes]) -> None:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            if len(mapped) <= MAX_WHOLE_BYTES:
                self._put(mapped)
                return
            stream = _Stream(self._put_stream, self._check)
            try:
                for start in range(0, len(mapped), PART_BYTES):
                    stream.send(mapped[start : start + PART_BYTES])
            except BaseException:
                stream.abort()
                raise
            stream.finish()

    def abort(self) -> None:
        self._is_open = False
        if self._stream is not None:
            self._stream.abort()
        if self._file is not None:
            self._file.close()
        self._buffer.clear()


class _Aborted(Exception):
    """The writer was aborted, so that nothing may appear."""


class _Stream:
    """Parts on their way to the server, in a thread of their own. A full queue makes the writer wait."""

    def __init__(self, put_stream: Callable[[Iterator[bytes]], None], check: Fence) -> None:
        self._queue: Queue[bytes | None] = Queue(maxsize=2)
        self._check = check
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="upload")
        self._sending: Future[None] = self._thread.submit(put_stream, self._parts())

    def _parts(self) -> Iterator[bytes]:
        while (part := self._queue.get()) != _END:
            if part is None:
                raise _Aborted
            yield part
        self._check()

    def send(self, part: bytes | None) -> None:
        """Queue a part, unless sending has failed; then raise why."""
        while True:
            if self._sending.done():
                self._sending.result()
            with suppress(Full):
                self._queue.put(part, timeout=0.5)
                return

    def finish(self) -> None:
        self.send(_END)
        try:
            self._sending.result()
        finally:
            self._thread.shutdown()

    def abort(self) -> None:
        while not self._sending.done():
            with suppress(Empty):
                self._queue.get_nowait()  # what was not sent yet never will be
            with suppress(Full):
                self._queue.put(None, timeout=0.1)
        self._thread.shutdown()


class ObjectTail(Tail):
    """The growing end of a log, in a temporary file. `upload` shows its last lines to others, if there are new ones.

    Args:
        put: Sends the last lines; it may fail.
        delete: Removes them.
    """

    def __init__(self, put: Callable[[bytes], None], delete: Callable[[], None]) -> None:
        self._put = put
        self._delete = delete
        self._file: IO[bytes] | None = tempfile.TemporaryFile()  # noqa: SIM115 closed by `close`
        self._size = self._uploaded = 0
        self._lock = threading.Lock()

    def append(self, data: bytes) -> None:
        assert self._file is not None, "append after close"
        self._file.write(data)
        self._file.flush()
        self._size += len(data)

    def content(self) -> bytes:
        assert self._file is not None, "content after close"
        return os.pread(self._file.fileno(), self._size, 0)

    def end(self) -> bytes | None:
        """The last whole lines; None after `close`."""
        with self._lock:
            return self._read_end() if self._file is not None else None

    def upload(self) -> None:
        """Called now and then, from another thread than the rest."""
        with self._lock:
            size = self._size
            if self._file is not None and size != self._uploaded:
                self._put(self._read_end())
                self._uploaded = size

    def _read_end(self) -> bytes:
        assert self._file is not None
        start = max(0, self._size - TAIL_BYTES)
        data = os.pread(self._file.fileno(), self._size - start, start)
        return data if start == 0 else data.partition(b"\n")[2]

    def close(self, keep: bool = False) -> None:
        if keep:
            self.upload()
        with self._lock:
            file, self._file = self._file, None
            if file is not None:
                file.close()
                if self._uploaded and not keep:
                    self._delete()
