"""Frees the rows of hash tables that have expired, every few URIs. How often changes no bit of the result: an expired
row is reset at its next use, swept or not."""

from samovar.runner import Callback, Run


class TtlFilter(Callback):
    def __init__(self, frequency: int = 1) -> None:
        self._frequency = frequency

    def on_uri_end(self, run: Run) -> None:
        if run.next_uri % self._frequency == 0:
            sweep(run)

    def on_run_end(self, run: Run) -> None:
        sweep(run)  # the final model holds no expired row


def sweep(run: Run) -> int:
    """Gives the number of rows that were freed."""
    return sum(tables.sweep() for tables in run.hash_tables)
