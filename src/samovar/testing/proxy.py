"""Servers that misbehave: a proxy in front of a real one, which loses answers, delays, refuses and counts. Knows HTTP,
and nothing of object stores but the look of their errors.
"""

import socket
import socketserver
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from io import BufferedIOBase
from types import TracebackType
from typing import Self

_CONDITIONS = ("if-match", "if-none-match")
_PIECE_BYTES = 256 << 10


@dataclass(frozen=True)
class Request:
    """A request that reached the proxy."""

    number: int
    """Counts from 0."""
    method: str
    target: str
    headers: dict[str, str]
    """With names in lower case."""

    @property
    def is_conditional(self) -> bool:
        """Whether it is a write that carries a condition."""
        return self.method == "PUT" and any(name in self.headers for name in _CONDITIONS)


@dataclass(frozen=True)
class Treatment:
    """What the proxy does with a request."""

    delay_seconds: float = 0.0
    """Before it is passed on."""
    hold: threading.Event | None = None
    """It is passed on when this is set, even if the client has gone."""
    refuse_with: int | None = None
    """Answer with this status, and pass nothing on."""
    is_answer_lost: bool = False
    """Pass it on, and then cut the line."""
    ignores_conditions: bool = False
    """Pass it on without If-Match and If-None-Match."""


PASS = Treatment()
LOSE_ANSWER = Treatment(is_answer_lost=True)
_CODES = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied", 409: "ConditionalRequestConflict"}


class Proxy:
    """A proxy on this machine, for a `with` block.

    Args:
        port: Of the real server, on 127.0.0.1.
        treat: What happens to a request. It is called by one thread at a time.

    Example:
        >>> with Proxy(server.port, lambda request: LOSE_ANSWER if request.number % 3 == 2 else PASS) as proxy:
        ...     print(f"http://127.0.0.1:{proxy.own_port} loses every third answer")
    """

    def __init__(self, port: int, treat: Callable[[Request], Treatment] = lambda request: PASS) -> None:
        self.requests: list[Request] = []
        self.bytes_sent = 0
        """To the clients."""
        self._port = port
        self._treat = treat
        self._lock = threading.Lock()
        self._is_ending = threading.Event()
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.proxy = self
        self.own_port: int = self._server.server_address[1]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), name="proxy")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_ending.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, client: BufferedIOBase, answer: BufferedIOBase) -> None:
        """Answer the one request of a connection: both sides are told to close it."""
        lines = _read_head(client)
        if not lines:
            return
        method, target, _ = lines[0].split(" ")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        with self._lock:
            request = Request(len(self.requests), method, target, headers)
            self.requests.append(request)
            treatment = self._treat(request)
        body = client.read(int(headers.get("content-length", "0")))
        if treatment.refuse_with is not None:
            answer.write(_refusal(treatment.refuse_with, is_head=method == "HEAD"))
            return
        time.sleep(treatment.delay_seconds)
        while treatment.hold is not None and not treatment.hold.wait(0.02):
            if self._is_ending.is_set():
                return
        dropped = ("connection", *(_CONDITIONS if treatment.ignores_conditions else ()))
        kept = [line for line in lines[1:] if line.partition(":")[0].lower() not in dropped]
        passed_on = "\r\n".join([lines[0], *kept, "Connection: close", "", ""]).encode("latin-1") + body
        with socket.create_connection(("127.0.0.1", self._port)) as server:
            server.sendall(passed_on)
            while piece := server.recv(_PIECE_BYTES):
                if not treatment.is_answer_lost:
                    with self._lock:
                        self.bytes_sent += len(piece)
                    answer.write(piece)


class _Server(socketserver.ThreadingTCPServer):
    proxy: Proxy
    daemon_threads = False  # `server_close` waits for them
    request_queue_size = 128


class _Handler(socketserver.StreamRequestHandler):
    server: _Server
    disable_nagle_algorithm = True

    def handle(self) -> None:
        with suppress(OSError):  # one side has gone
            self.server.proxy.answer(self.rfile, self.wfile)

    def finish(self) -> None:
        with suppress(OSError):
            super().finish()


def _read_head(client: BufferedIOBase) -> list[str]:
    lines = []
    while (line := client.readline().decode("latin-1").removesuffix("\r\n")) != "":
        lines.append(line)
    return lines


def _refusal(status: int, is_head: bool) -> bytes:
    body = (
        f"<?xml version='1.0'?><Error><Code>{_CODES.get(status, 'Error')}</Code><Message>no</Message></Error>".encode()
    )
    head = f"HTTP/1.1 {status} No\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    return head.encode() + (b"" if is_head else body)
