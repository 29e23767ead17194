"""`train`: a config and a script become a model directory, however often the process is killed on the way.

request ─▶ config ─▶ tables (inputs, plan) ─▶ build(params) ─▶ directory created ─▶ restore ─▶ loop ─▶ finish
└────── a mistake up to here leaves nothing behind ───────┘
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Self

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
from samovar.config import flatten
from samovar.errors import Stopped
from samovar.results import OpenResult, ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.runner import Callback, Loader, MinibatchWorkerPool, Run, Runner, Uri
from samovar.store import LocalStore
from samovar.tables import open_table
from samovar.training.drift import EarlierRun, check_defaults, find_earlier_run
from samovar.training.inputs import TableOpener
from samovar.training.plan import LoopPlan, TrainingData, is_following, open_training_data, plan_loop
from samovar.training.request import Request, make_effective_config
from samovar.training.schema import Config, load_config
from samovar.training.script import Built, Script, build, forbid_exit

MODEL_KIND = "model"
_POLL_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
_CHECKS_PER_PATIENCE = 10


@dataclass(frozen=True)
class TrainResult:
    directory: Path
    was_finished: bool
    """Whether there was nothing to do."""
    notes: Sequence[str] = field(default_factory=list)


def train(request: Request, console: Console | None = None) -> TrainResult:
    """Start a training run, or resume it from its newest snapshot.

    Args:
        request: Config, script and directory; see `make_request`.
        console: Where to show notes and progress. None: nowhere.

    Returns:
        The directory of the finished model.

    Raises:
        Stopped: A signal or a stop file ended the run. Call `train` again to resume it.
        UserError: The config, the script or the tables cannot be used, or the directory belongs to another config.
    """
    directory = ResultDirectory(LocalStore(request.out, request.disk))
    effective = make_effective_config(request.tree, request.folder, request.out, directory)
    config = load_config(effective, request.where)
    if directory.is_finished:
        sources = _current_sources(directory, effective)
        finished = ResultPlan(MODEL_KIND, effective, request.script.source, request.script.contents, sources)
        return TrainResult(request.out, True, begin(directory, finished).notes)
    data = open_training_data(config, TableOpener(request.folder, request.replayed or directory, is_following(config)))
    plan = _plan_result(request, effective, data, directory)
    ready = None
    if not directory.is_created:  # find every mistake before the directory is created
        ready = _build(request, config, find_earlier_run(plan, request.out, request.replayed))
        plan_loop(data, ready.built.learner, lambda: None)  # checks the columns that the model asks for
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)  # `begin` compares them with those of the first start
    with begin(directory, plan, accept_script=request.accept_script) as result:
        if result.is_finished:
            return TrainResult(request.out, True, result.notes)
        ready = ready or _build(request, config, EarlierRun.of(directory))
        result.notes += ready.notes
        with forbid_exit(request.script.path, "code used in training"):
            _Session(result, data, ready.built, request.out, console).run()
        return TrainResult(request.out, False, result.notes)


def build_learner(config: Config, script: Script) -> Built:
    """Run the script with the threads and the seed of the config."""
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)
    seeds.set_seed(config.seed)
    return build(script, config.model)


@dataclass(frozen=True)
class _Ready:
    built: Built
    notes: Sequence[str]
    """Changed defaults that the user accepts."""


def _build(request: Request, config: Config, earlier: EarlierRun | None) -> _Ready:
    built = build_learner(config, request.script)
    return _Ready(built, check_defaults(earlier, built.ledger, request.accept_defaults))


def _plan_result(
    request: Request, effective: Mapping[str, Any], data: TrainingData, directory: ResultDirectory
) -> ResultPlan:
    sources = [link for source in (data.train, *data.evaluations) for link in source.lineage]
    if data.config.init_from is not None:
        sources.append(_initial_model(data.config.init_from, directory))
    return ResultPlan(
        MODEL_KIND,
        effective,
        request.script.source,
        request.script.contents,
        sources,
        code_folder=request.script.path.parent,
    )


def _initial_model(path: str, directory: ResultDirectory) -> Source:
    """The link to `init_from`. A directory that was started has its own copy, so the model itself may be gone."""
    recorded = directory.lineage.sources if directory.is_created else ()
    known = next((source for source in recorded if source.key == "init_from"), None)
    if known is not None and known.path == path and not Path(path).exists():
        return known
    return open_directory(path).as_source("init_from")


def _current_sources(directory: ResultDirectory, effective: Mapping[str, Any]) -> list[Source]:
    """The sources of a finished directory as they are now. One that is gone counts as it was recorded."""
    paths = flatten(effective)
    sources = []
    for source in directory.lineage.sources:
        path = paths.get(source.key)
        if path == source.path and not Path(path).exists():
            sources.append(source)
        elif path is not None:
            source_id = open_directory(path).id if source.key == "init_from" else open_table(path).id
            sources.append(replace(source, path=path, id=source_id))
    return sources


@dataclass
class _Session:
    """A run in a directory that this process holds: restore, callbacks, loop, finish."""

    result: OpenResult
    data: TrainingData
    built: Built
    folder: Path
    console: Console | None

    def run(self) -> None:
        """Run until the model is finished, or raise `Stopped`."""
        config, learner = self.data.config, self.built.learner
        self.result.write_params(self.built.ledger.to_dict())
        assert config.num_threads is not None
        torch.set_num_threads(config.num_threads)  # the script may have changed them
        seeds.set_seed(seeds.derive(config.seed, "run"))  # `build` may have drawn any number of times
        with ExitStack() as stack:
            signals = stack.enter_context(Signals(self.console))
            snapshotter = Snapshotter(self.result, config.snapshotter.frequency)
            pool = MinibatchWorkerPool(learner)
            run = Run(learner, pool.settings.policies)
            plan = plan_loop(self.data, learner, self._make_wait(run, snapshotter, signals))
            run.callbacks = self._make_callbacks(stack, plan, snapshotter, signals)
            self._restore(run)
            self._print_notes([*self.result.notes, *plan.notes])
            loader = stack.enter_context(Loader())
            stack.enter_context(self._watch(loader, run.callbacks))
            try:
                Runner(pool, loader, run.callbacks).run(run, plan.uris)
            except Stopped:
                StopFile(self.folder).remove()
                raise
            self.result.finish(run.state_dict(is_final=True), run.position)

    def _restore(self, run: Run) -> None:
        snapshot = self.result.restore()
        init_from = self.data.config.init_from
        if snapshot is not None:
            run.load_state_dict(snapshot.tree, with_settings=not self.result.is_code_new_at(snapshot.position))
        elif init_from is not None:
            run.load_model(open_directory(init_from).load_model().tree)
            # From now on the initial model is not needed: it may train further, or be removed.
            self.result.save(run.state_dict(), run.position)

    def _make_callbacks(
        self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter, signals: Signals
    ) -> list[Callback]:
        """In the order of a URI's end: ttl, evaluation, the user's, logs, progress, schedules, stop rules, snapshot."""
        config = self.data.config
        progress: list[Callback] = []
        if config.progress and self.console is not None:
            progress = [stack.enter_context(Progress(plan.uris.count, lambda: snapshotter.age_seconds, self.console))]
        return [
            TtlFilter(config.ttl_filter.frequency),
            *self._make_evaluation(stack, plan, snapshotter),
            *self.built.learner.callbacks,
            MetricsLog(self.result),
            TensorBoard(self.result),
            TimingLog(self.result),
            *progress,
            PolicyClock(),
            NanGuard(),
            StopFile(self.folder),
            signals,
            snapshotter,
        ]

    def _make_evaluation(self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter) -> list[Callback]:
        seed = self.data.config.seed
        if not plan.jobs:
            return []
        if not plan.is_lagged:
            return [FinalEvaluation(self.result, plan.jobs, seed, before=snapshotter.save)]
        evaluation = LaggedEvaluation(self.result, plan.jobs, seed)
        stack.callback(evaluation.close)
        return [evaluation]

    def _make_wait(self, run: Run, snapshotter: Snapshotter, signals: Signals) -> Callable[[], None]:
        """What to do while the next hour is missing: save, so that others can use the model, then poll for a second."""
        stop_file = self.folder / STOP_FILE

        def wait() -> None:
            if run.next_uri > 0:
                snapshotter.save(run)
            if stop_file.exists():
                raise Stopped(f"stopped while waiting for new hours ({stop_file}). Run it again to resume")
            if signals.request.wait(_POLL_SECONDS):
                raise Stopped(f"stopped while waiting for new hours ({signals.request.reason}). Run it again to resume")

        return wait

    def _watch(self, loader: Loader, callbacks: list[Callback]) -> "ReaderWatch":
        evaluations = [each for each in callbacks if isinstance(each, LaggedEvaluation)]

        def loaders() -> list[Loader]:
            return [loader, *(other for each in evaluations for other in each.loaders)]

        return ReaderWatch(loaders, lambda text: self._print_notes([text]))

    def _print_notes(self, notes: list[str]) -> None:
        if self.console is not None:
            for note in notes:
                self.console.print(note, markup=False)


class ReaderWatch:
    """A thread that reports a minibatch which does not arrive: without it a source that hangs looks like a slow model.

    It stops nothing, because a network disk may come back. Use it in a `with` block.
    """

    def __init__(
        self,
        loaders: Callable[[], Sequence[Loader]],
        report: Callable[[str], None],
        patience_seconds: float = _PATIENCE_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._loaders = loaders
        self._report = report
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
        since = reported = self._clock()
        while not self._is_over.wait(self._patience_seconds / _CHECKS_PER_PATIENCE):
            found = next((each.waiting_for for each in self._loaders() if each.waiting_for is not None), None)
            now = self._clock()
            if found is None or found is not awaited:
                awaited, since, reported = found, now, now
            elif now - reported >= self._patience_seconds:
                reported = now
                uri, number = found
                self._report(
                    f"{uri.name}: waiting for minibatch {number} for {now - since:.0f} s, "
                    f"{uri.stream.place_of(uri.first + number)}. Check that its disk responds; stopping is safe"
                )
