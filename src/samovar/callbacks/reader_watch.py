"""Tells when a minibatch does not come: a source that hangs looks like a slow model otherwise. It ends nothing: a
network disk may come back, and the run can be stopped and goes on later."""

import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self

from samovar.runner import Loader, Uri

PATIENCE_SECONDS = 60.0
_LOOKS = 10  # in the time of its patience


class ReaderWatch:
    """A thread that looks at loaders. Use it in a `with` block."""

    def __init__(
        self,
        loaders: Callable[[], Sequence[Loader]],
        tell: Callable[[str], None],
        patience_seconds: float = PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loaders = loaders
        self._tell = tell
        self._patience_seconds = patience_seconds
        self._clock = clock
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="reader watch", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        awaited: tuple[Uri, int] | None = None
        since = told = self._clock()
        while not self._is_over.wait(self._patience_seconds / _LOOKS):
            found = next((each.waiting_for for each in self._loaders() if each.waiting_for is not None), None)
            now = self._clock()
            if found is None or found is not awaited:
                awaited, since, told = found, now, now
            elif now - told >= self._patience_seconds:
                told = now
                uri, number = found
                self._tell(
                    f"{uri.name}: waiting for minibatch {number} for {now - since:.0f} s, "
                    f"{uri.stream.place_of(uri.first + number)}: look whether its disk answers; stopping is safe"
                )
