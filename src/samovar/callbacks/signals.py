"""SIGTERM and SIGINT: the first stops after the current URI, with a snapshot; the second stops at once."""

from contextlib import ExitStack
from types import TracebackType
from typing import Self

from rich.console import Console

from samovar.runner import Callback, Run
from samovar.signals import StopRequest


class Signals(Callback):
    """Listens between `__enter__` and `__exit__`."""

    def __init__(self, console: Console | None = None) -> None:
        self.request = StopRequest()
        """Who waits for data looks at this too."""
        self._console = console
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        self._stack.enter_context(self.request.asking())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def on_batch_end(self, run: Run) -> None:
        """Tells it here: in the midst of a signal nothing may be printed."""
        if self._console is not None and self.request.count and run.uri is not None:
            self._console.print(
                f"{self.request.reason}: stops after {run.uri.name}, with a snapshot; once more stops at once",
                markup=False,
            )
            self._console = None

    def on_uri_end(self, run: Run) -> None:
        if self.request.count:
            run.stop(self.request.reason)
