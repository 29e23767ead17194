"""The process of an endpoint: its socket, its signals, its end.

SIGTERM ─▶ not ready; answers ask to close the connection ─▶ no request for a second, or 30 s ─▶ closed, exit code 0
"""

import logging
import socket
import time
from collections.abc import Callable
from types import FrameType

import uvicorn

from samovar.errors import BadInput
from samovar.results import open_directory
from samovar.runner.loop import warm_up_vector_math
from samovar.serving.app import Endpoint
from samovar.serving.metrics import Metrics
from samovar.serving.models import open_models

DRAIN_SECONDS = 30.0
_QUIET_SECONDS = 1.0
_BACKLOG = 2048


class _Server(uvicorn.Server):
    """Ends when nobody has sent a request for a moment, so that no client meets a closed door."""

    def __init__(self, config: uvicorn.Config, endpoint: Endpoint) -> None:
        super().__init__(config)
        self._endpoint = endpoint
        self._asked_at: float | None = None

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """The first signal lets requests end, the second does not wait."""
        if self._asked_at is not None:
            self.should_exit = self.force_exit = True
        self._asked_at = time.monotonic()
        self._endpoint.is_draining = True

    async def on_tick(self, counter: int) -> bool:
        """Called ten times per second."""
        if self._asked_at is not None:
            now = time.monotonic()
            is_quiet = now - max(self._asked_at, self._endpoint.last_request) > _QUIET_SECONDS
            self.should_exit |= is_quiet and self._endpoint.num_running == 0
            self.should_exit |= now - self._asked_at > DRAIN_SECONDS
        return await super().on_tick(counter)


def serve(
    place: str,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    report: Callable[[str], None] = print,
) -> None:
    """Serve a model until a signal ends the process.

    Args:
        place: A bundle, or a model directory whose run publishes.
        host: The address to listen on.
        port: The port; 0 takes a free one.
        token: What requests must bring. None: nothing.
        report: Called with the address, when the server is ready.

    Raises:
        NotAResult: The directory has nothing to serve.
        CorruptData: The model is damaged.
        BadInput: The address cannot be used.
    """
    listening = _listen(host, port)
    try:
        warm_up_vector_math()
        directory, metrics = open_directory(place), Metrics()
        models = open_models(directory, lambda is_good: metrics.count_reload(is_good=is_good))
        endpoint = Endpoint(models, directory.place.resolve().name, token, metrics=metrics)
        config = uvicorn.Config(
            endpoint.app(),
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=int(DRAIN_SECONDS),
        )
        logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
        report(f"http://{_shown(host)}:{listening.getsockname()[1]}")
        try:
            _Server(config, endpoint).run([listening])
        finally:
            endpoint.joiner.close()
            models.close()
    finally:
        listening.close()


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        found = socket.socket(family, kind, protocol)
    except (OSError, OverflowError, UnicodeError) as error:
        raise BadInput(f"cannot listen on {host}:{port}: {error}") from None
    try:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        found.bind(address)
        found.listen(_BACKLOG)
    except OSError as error:
        found.close()
        raise BadInput(f"cannot listen on {host}:{port}: {error.strerror}") from None
    return found


def _shown(host: str) -> str:
    return f"[{host}]" if ":" in host else host
