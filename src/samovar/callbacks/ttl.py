"""Frees expired embedding rows of hash tables. Knows no clock: a table knows which of its rows have expired."""

from samovar.runner import Callback, Run


class TtlFilter(Callback):
    """Frees the memory of expired embedding rows every few URIs, and once at the end of the run.

    How often it runs does not change the result: an expired row is reset at its next use, whether it was freed or not.

    Args:
        every_uris: How many URIs pass between two sweeps. Fewer sweeps save time and cost memory.

    Example:
        >>> callback = TtlFilter(every_uris=24)
    """

    def __init__(self, every_uris: int = 1) -> None:
        self._every_uris = every_uris

    def on_uri_end(self, run: Run) -> None:
        if run.next_uri % self._every_uris == 0:
            _sweep(run)

    def on_run_end(self, run: Run) -> None:
        _sweep(run)  # the final model has no expired rows


def _sweep(run: Run) -> None:
    for tables in run.hash_tables:
        tables.sweep()
