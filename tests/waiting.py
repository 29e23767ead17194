"""Waiting for what another process does. The condition decides; the clock only ends a wait in vain."""

import time
from collections.abc import Callable
from typing import Any

PATIENCE_SECONDS = 120.0
_PAUSE_SECONDS = 0.005  # leaves the core to those who are waited for


def wait_until(is_so: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not is_so():
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(_PAUSE_SECONDS)
