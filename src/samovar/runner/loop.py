"""The only training loop.

    on_run_begin
    for uri in uris:                          from the next one of the run's state
        on_uri_begin                          EarlyStopping ends the run before this URI
        step.begin(uri)                       hash tables' clocks + 1, if it has minibatches
        for record in loader.read(uri):
            step.run(record)                  forward, loss, backward, update
            on_batch_end                      only observes
        step.drain()                          nothing is in flight any more
        on_uri_end                            in the callbacks' order; EarlyStopping ends the run after them
        stopped on request: raise Stopped
    on_run_end

It knows no tables, no directories and no time.

The first call of torch's vectorized functions (sqrt, exp, sin…), made by one thread. Knows no models.

The library behind them sets itself up at its first call. When two threads make it at once, one of them may compute its
share to four digits instead of seven: on two cores in about one process of 700. A first step of Adam that meets this
makes a run that differs from all others.
"""

from collections.abc import Sequence
from typing import Protocol

import torch

from samovar.errors import Stopped
from samovar.policies import EarlyStopping
from samovar.runner.callback import Callback
from samovar.runner.loader import Loader
from samovar.runner.run import Run
from samovar.runner.uri import Uri, Uris
from samovar.tables.record import MinibatchRecord


def warm_up_vector_math() -> None:
    for dtype in (torch.float32, torch.float64):
        torch.sqrt(torch.ones(1, dtype=dtype, device="cpu"))


class Step(Protocol):
    """What the loop does with each minibatch: `MinibatchWorkerPool` trains, `PredictStep` predicts."""

    def begin(self, uri: Uri) -> None:
        """A URI begins."""

    def run(self, record: MinibatchRecord) -> float | None:
        """One minibatch; gives the loss, if there is one."""

    def drain(self) -> None:
        """The URI ends: nothing may stay in flight."""


class Runner:
    """Takes a run through its URIs."""

    def __init__(self, step: Step, loader: Loader, callbacks: Sequence[Callback] = ()) -> None:
        self._step = step
        self._loader = loader
        self._callbacks = list(callbacks)

    def run(self, run: Run, uris: Uris) -> None:
        """From `run.next_uri` to the end, or to `Stopped`."""
        for callback in self._callbacks:
            callback.on_run_begin(run)
        if run.end_reason is None:
            for uri in uris.starting_at(run.next_uri):
                self._begin(run, uri)
                if run.end_reason is not None:
                    break
                self._train(run, uri)
                self._end(run)
                if run.stop_reason is not None:
                    raise Stopped(f"stopped after {uri.name} ({run.stop_reason}): start it again to go on")
                if run.end_reason is not None:
                    break
        run.metrics = {}
        for callback in self._callbacks:
            callback.on_run_end(run)

    def _begin(self, run: Run, uri: Uri) -> None:
        run.begin_uri(uri)
        for callback in self._callbacks:
            try:
                callback.on_uri_begin(run)
            except EarlyStopping as stopping:
                run.end_early(stopping)

    def _train(self, run: Run, uri: Uri) -> None:
        self._step.begin(uri)
        number = 0
        try:
            for record in self._loader.read(uri):
                run.add_batch(record, self._step.run(record))
                for callback in self._callbacks:
                    callback.on_batch_end(run)
                number += 1
        except Exception as error:
            error.add_note(f"in minibatch {number} of {uri.name}")
            raise
        self._step.drain()
        run.end_uri(uri)

    def _end(self, run: Run) -> None:
        for callback in self._callbacks:
            try:
                callback.on_uri_end(run)
            except EarlyStopping as stopping:
                run.end_early(stopping)
