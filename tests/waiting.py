"""Waits for another process. The condition decides; the clock only ends a wait that fails."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 600.0
_PAUSE_SECONDS = 0.005  # leave the core to the process we wait for


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"timed out waiting until {what}"
        time.sleep(_PAUSE_SECONDS)
