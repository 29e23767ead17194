"""Publishes the model for servers after each hour. Knows neither how it is traced nor who reads it."""

from collections.abc import Callable

from samovar.results import OpenResult
from samovar.runner import Callback, Run
from samovar.scoring.publication import ATTRIBUTE, Publishable, Segment, read_chain, remove_old, write_segment


class Publisher(Callback):
    """Writes a base or a delta at each URI's end, and commits it under the lease. Put it after the snapshotter.

    A run that was killed trains some hours again, to the same bytes: those that are published are not published again.

    Args:
        result: The open result directory.
        prepare: Returns the model as it is now. Called at each publication.

    Example:
        >>> publisher = Publisher(result, lambda: publishable)
    """

    def __init__(self, result: OpenResult, prepare: Callable[[], Publishable]) -> None:
        self._result = result
        self._prepare = prepare
        self._chain: list[Segment] = []

    def on_run_begin(self, run: Run) -> None:
        directory = self._result.directory
        self._chain = read_chain(directory.store)
        if self._chain and self._chain[-1].uri > run.next_uri and directory.code_changes:
            self._chain = []  # these hours are trained again by other code

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        if self._chain and run.next_uri <= self._chain[-1].uri:
            return
        store, before = self._result.directory.store, self._chain
        self._chain = write_segment(store, before, self._prepare(), run.next_uri, run.uri.name, self._result.check)
        self._result.commit(**{ATTRIBUTE: [each.to_json() for each in self._chain]})
        remove_old(store, before, self._chain)  # a server may still read the chain before
