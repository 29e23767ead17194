"""A run inside a directory that this process holds: restore, callbacks, loop, finish.

Tells when a minibatch does not come: a source that hangs looks like a slow model otherwise. It ends nothing: a
network disk may come back, and the run can be stopped and goes on later.
"""

import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import torch
from rich.console import Console

from samovar import seeds
from samovar.callbacks import (
    FinalEvaluation,
    LaggedEvaluation,
    MetricsLog,
    NanGuard,
    PolicyClock,
    Progress,
    Signals,
    Snapshotter,
    StopFile,
    TensorBoard,
    TimingLog,
    TtlFilter,
)
from samovar.callbacks.stopping import STOP_FILE
from samovar.errors import Stopped
from samovar.results import OpenResult, open_directory
from samovar.runner import Callback, Loader, MinibatchWorkerPool, Run, Runner, Uri
from samovar.training.plan import LoopPlan, TrainingData, plan_loop
from samovar.training.script import Built

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


POLL_SECONDS = 1.0


@dataclass
class Session:
    result: OpenResult
    stage: TrainingData
    built: Built
    folder: Path
    console: Console | None = None

    def run(self) -> None:
        """To the finish, or to `Stopped`."""
        config, learner = self.stage.config, self.built.learner
        self.result.write_params(self.built.ledger.to_dict())
        assert config.num_threads is not None
        torch.set_num_threads(config.num_threads)  # whatever the script did to them
        seeds.set_seed(seeds.derive(config.seed, "run"))  # however long `build` and the directory drew from them
        with ExitStack() as stack:
            signals = stack.enter_context(Signals(self.console))
            snapshotter = Snapshotter(self.result, config.snapshotter.frequency)
            pool = MinibatchWorkerPool(learner)
            run = Run(learner, pool.settings.policies)
            plan = plan_loop(self.stage, learner, self._waiting(run, snapshotter, signals))
            run.callbacks = self._callbacks(stack, plan, snapshotter, signals)
            self._restore(run)
            self._tell([*self.result.notes, *plan.notes])
            loader = stack.enter_context(Loader())
            stack.enter_context(self._watch_over(loader, run.callbacks))
            try:
                Runner(pool, loader, run.callbacks).run(run, plan.uris)
            except Stopped:
                StopFile(self.folder).remove()
                raise
            self.result.finish(run.state_dict(is_final=True), run.position)

    def _watch_over(self, loader: Loader, callbacks: list[Callback]) -> ReaderWatch:
        evaluations = [each for each in callbacks if isinstance(each, LaggedEvaluation)]

        def loaders() -> list[Loader]:
            return [loader, *(other for each in evaluations for other in each.loaders)]

        return ReaderWatch(loaders, lambda text: self._tell([text]))

    def _tell(self, notes: list[str]) -> None:
        if self.console is not None:
            for note in notes:
                self.console.print(note, markup=False)

    def _restore(self, run: Run) -> None:
        snapshot = self.result.restore()
        origin = self.stage.config.init_from
        if snapshot is not None:
            run.load_state_dict(snapshot.tree, with_settings=not self.result.is_code_new_at(snapshot.position))
        elif origin is not None:
            run.load_model(open_directory(origin).load_model().tree)
            # From here on the origin is not needed: it may go on training, or be removed.
            self.result.save(run.state_dict(), run.position)

    def _callbacks(
        self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter, signals: Signals
    ) -> list[Callback]:
        """In the order of a URI's end: ttl, evaluation, the user's, logs, stop rules, and the snapshot last."""
        config = self.stage.config
        shown: list[Callback] = []
        if config.progress and self.console is not None:
            shown = [stack.enter_context(Progress(plan.uris.count, lambda: snapshotter.age_seconds, self.console))]
        return [
            TtlFilter(config.ttl_filter.frequency),
            *self._evaluation(stack, plan, snapshotter),
            *self.built.learner.callbacks,
            MetricsLog(self.result),
            TensorBoard(self.result),
            TimingLog(self.result),
            *shown,
            PolicyClock(),
            NanGuard(),
            StopFile(self.folder),
            signals,
            snapshotter,
        ]

    def _evaluation(self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter) -> list[Callback]:
        seed = self.stage.config.seed
        if not plan.jobs:
            return []
        if not plan.is_lagged:
            return [FinalEvaluation(self.result, plan.jobs, seed, before=snapshotter.save)]
        evaluation = LaggedEvaluation(self.result, plan.jobs, seed)
        stack.callback(evaluation.close)
        return [evaluation]

    def _waiting(self, run: Run, snapshotter: Snapshotter, signals: Signals) -> Callable[[], None]:
        """What a run does when the next hour is not there: it saves what it has, so that others can use it, and looks
        again every second."""
        stop_file = self.folder / STOP_FILE

        def wait() -> None:
            if run.next_uri > 0:
                snapshotter.save(run)
            if stop_file.exists():
                raise Stopped(f"stopped while waiting for new hours ({stop_file}): start it again to go on")
            if signals.request.wait(POLL_SECONDS):
                reason = signals.request.reason
                raise Stopped(f"stopped while waiting for new hours ({reason}): start it again to go on")

        return wait
