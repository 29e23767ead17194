"""`train`: a config and a script become a model directory, however often the process is killed on the way.

request ─▶ config ─▶ tables (inputs, plan) ─▶ build(params) ─▶ directory created ─▶ restore ─▶ loop ─▶ finish
└────── a mistake up to here leaves nothing behind ───────┘
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self

import torch
from rich.console import Console

from samovar import seeds
from samovar.callbacks import (
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
from samovar.callbacks.evaluation import Every, LaggedEvaluation, TableEvaluation
from samovar.callbacks.publishing import Publisher
from samovar.callbacks.schedule import Countdown, RateFactor
from samovar.callbacks.watching import BestEpoch, MetricPlateau, MetricStop
from samovar.config import flatten
from samovar.config.places import Place
from samovar.embeddings.vectors import vectors_source
from samovar.errors import ConfigError, Stopped, StoreError
from samovar.results import OpenResult, ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.runner import Callback, Loader, MinibatchWorkerPool, Run, Runner, Uri
from samovar.runner.compiled import compile_for_all_shapes
from samovar.runner.device import choose_device, place_learner
from samovar.runner.run import check_tree
from samovar.runner.scaling import scale_inputs
from samovar.runner.step import StepOptions
from samovar.scoring.publication import Publishable
from samovar.scoring.signature import Signature
from samovar.store import open_store
from samovar.tables import open_table
from samovar.training.core_watch import CoreWatch
from samovar.training.drift import EarlierRun, check_defaults, find_earlier_run
from samovar.training.inputs import TableOpener
from samovar.training.parts import freeze
from samovar.training.plan import LoopPlan, TrainingData, is_following, open_training_data, plan_loop
from samovar.training.request import Request, make_effective_config
from samovar.training.schema import Config, OfflineConfig, OnlineConfig, StoppingOptions, load_config
from samovar.training.script import Built, Script, build, forbid_exit
from samovar.training.tracing import hash_embeddings, trace
from samovar.training.uris import EpochUris
from samovar.training.warm_start import INIT_KEYS, start_model, start_sources

MODEL_KIND = "model"
_log = logging.getLogger(__name__)
_POLL_SECONDS = 1.0
_PATIENCE_SECONDS = 60.0
_CHECKS_PER_PATIENCE = 10


@dataclass(frozen=True)
class TrainResult:
    """A model that is trained.

    Attributes:
        directory: Its result directory.
        was_finished: Whether there was nothing to do.
        notes: What a user should look at.

    Example:
        >>> from samovar.training import make_request
        >>> run_training(make_request("click.json", "model.py", out="models/click_4")).was_finished
        False
    """

    directory: Place
    was_finished: bool
    notes: Sequence[str] = field(default_factory=list)


def run_training(request: Request, console: Console | None = None) -> TrainResult:
    """Start a training run, or resume it from its newest snapshot.

    Args:
        request: Config, script and directory; see `make_request`.
        console: Where to show progress. None: nowhere.

    Returns:
        The directory of the finished model, and what the user should know.

    Raises:
        Stopped: A signal or a stop file ended the run. Call `train` again to resume it.
        UserError: The config, the script or the tables cannot be used, or the directory belongs to another config.

    Example:
        >>> from samovar.training import make_request
        >>> done = run_training(make_request("click.json", "model.py", out="models/click_3"))
        >>> str(done.directory), done.was_finished
        ('models/click_3', False)
    """
    directory = ResultDirectory(open_store(request.out, request.disk))
    effective = make_effective_config(request.tree, request.folder, request.out, directory)
    config = load_config(effective, request.where)
    if directory.is_finished:
        sources = _current_sources(directory, effective)
        finished = ResultPlan(MODEL_KIND, effective, request.script.source, request.script.contents, sources)
        return TrainResult(request.out, True, report(begin(directory, finished).notes))
    choose_device(config.device)
    data = open_training_data(config, TableOpener(request.folder, request.replayed or directory, is_following(config)))
    plan = _plan_result(request, effective, data, directory)
    ready, is_new = None, not directory.is_created
    if is_new:  # find every mistake before the directory is created
        ready = _build(request, config, find_earlier_run(plan, request.out, request.replayed))
        plan_loop(data, ready.built.learner, lambda: None)  # checks the columns that the model asks for
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)  # `begin` compares them with those of the first start
    with begin(directory, plan, accept_script=request.accept_script) as result:
        if result.is_finished:
            return TrainResult(request.out, True, report(result.notes))
        ready = ready or _build(request, config, EarlierRun.of(directory))
        result.notes += ready.notes
        with forbid_exit(request.script.path, "code used in training"):
            _Session(result, data, ready.built, request, is_new, console).run()
        return TrainResult(request.out, False, result.notes)


def report(notes: Sequence[str]) -> Sequence[str]:
    """Log what the user should know."""
    for note in notes:
        _log.warning(note)
    return notes


def build_learner(config: Config, script: Script) -> Built:
    """Run the script with the threads and the seed of the config."""
    assert config.num_threads is not None
    torch.set_num_threads(config.num_threads)
    seeds.set_seed(config.seed)
    built = build(script, config.model)
    freeze(built.learner.model, config.frozen)
    compile_for_all_shapes(built.learner.model)
    if config.plateau is not None:
        _add_rate_factor(built)
    return built


def step_options(config: Config) -> StepOptions:
    """How the config wants steps to be computed."""
    return StepOptions(
        step_minibatches=config.step_minibatches,
        clip_norm=config.clip_norm,
        precision=config.precision,
        compile=config.compile,
    )


def _add_rate_factor(built: Built) -> None:
    """Give the learner the policy by which `plateau` lowers the rate."""
    if "lr_factor" in built.learner.policies:
        raise ConfigError("plateau: the script has its own policy 'lr_factor'. Remove it, or remove plateau")
    built.learner.policies = {**built.learner.policies, "lr_factor": RateFactor()}


def _countdown(options: StoppingOptions) -> Countdown:
    return Countdown(options.patience, with_restarts=False, least=options.min_progress)


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
    sources += start_sources(data.config, directory.lineage.sources if directory.is_created else ())
    return ResultPlan(
        MODEL_KIND,
        effective,
        request.script.source,
        request.script.contents,
        sources,
        code_folder=request.script.path.parent,
    )


def _current_sources(directory: ResultDirectory, effective: Mapping[str, Any]) -> list[Source]:
    """The sources of a finished directory as they are now. One that is gone counts as it was recorded."""
    paths = flatten(effective)
    sources = []
    for source in directory.lineage.sources:
        path = paths.get(source.key)
        if path == source.path and not open_store(path).exists():
            sources.append(source)
        elif path is not None:
            sources.append(replace(source, path=path, id=_current_id(source, path)))
    return sources


def _current_id(source: Source, path: str) -> str:
    if source.is_raw:
        return vectors_source(source.key, path).id
    return open_directory(path).id if source.key in INIT_KEYS else open_table(path).id


@dataclass
class _Session:
    """A run in a directory that this process holds: restore, callbacks, loop, finish."""

    result: OpenResult
    data: TrainingData
    built: Built
    request: Request
    is_new: bool
    """Whether this process created the directory."""
    console: Console | None

    def run(self) -> None:
        """Run until the model is finished, or raise `Stopped`. A run that fails before its first step is forgotten."""
        run = Run(self.built.learner)
        try:
            self._run(run)
        except Exception as error:
            if self.is_new and run.num_batches == 0 and not isinstance(error, Stopped | StoreError):
                self.result.forget()
            raise

    def _run(self, run: Run) -> None:
        config, learner = self.data.config, self.built.learner
        self.result.write_params(self.built.ledger.to_dict())
        assert config.num_threads is not None
        torch.set_num_threads(config.num_threads)  # the script may have changed them
        seeds.set_seed(seeds.derive(config.seed, "run"))  # `build` may have drawn any number of times
        with ExitStack() as stack:
            signals = stack.enter_context(Signals())
            snapshotter = Snapshotter(self.result, config.snapshotter.frequency)
            plan = plan_loop(self.data, learner, self._make_wait(run, snapshotter, signals))
            scale_inputs(learner.model, plan.signature.inputs)
            place_learner(learner, choose_device(config.device))
            pool = MinibatchWorkerPool(learner, step_options(config))
            run.policies = dict(pool.settings.policies)
            run.callbacks = self._make_callbacks(stack, plan, snapshotter, signals)
            self.result.write_signature(plan.signature.to_bytes())
            self._restore(run, plan.signature)
            report([*self.result.notes, *plan.notes])
            loader = stack.enter_context(Loader())
            stack.enter_context(self._watch(loader, run.callbacks))
            try:
                watched = CoreWatch(pool, config.num_threads, _log.warning)
                Runner(watched, loader, run.callbacks).run(run, plan.uris)
            except Stopped:
                StopFile(self.request.out).remove()
                raise
            self.result.finish(run.state_dict(is_final=True), run.position)

    def _restore(self, run: Run, signature: Signature) -> None:
        snapshot = self.result.restore(check_tree)
        config = self.data.config
        if snapshot is not None:
            run.load_state_dict(snapshot.tree, with_settings=not self.result.is_code_new_at(snapshot.position))
        elif config.init_from is not None or config.pretrained:
            start = start_model(run, config, signature)
            if start is not None:
                self.result.write_start(start.to_bytes())
                for line in start.lines():
                    _log.info(line)
            # From now on the initial model and the files are not needed: they may change, or be removed.
            self.result.save(run.state_dict(), run.position)

    def _make_callbacks(
        self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter, signals: Signals
    ) -> list[Callback]:
        """In the order of a URI's end: ttl, evaluation, user callbacks, logs, progress, schedules, stop rules,
        best epoch, snapshot, publication."""
        config = self.data.config
        progress: list[Callback] = []
        if config.progress and self.console is not None:
            progress = [stack.enter_context(Progress(plan.uris.count, lambda: snapshotter.age_seconds, self.console))]
        return [
            TtlFilter(config.ttl_filter.frequency),
            *self._make_evaluation(stack, plan, snapshotter),
            *self.built.learner.callbacks,
            *self.request.callbacks,
            MetricsLog(self.result),
            TensorBoard(self.result),
            TimingLog(self.result, plan.uris.count),
            *progress,
            PolicyClock(),
            NanGuard(),
            *self._make_rules(plan),
            StopFile(self.request.out),
            signals,
            *self._make_best(plan),
            snapshotter,
            *self._make_publisher(plan),
        ]

    def _make_publisher(self, plan: LoopPlan) -> list[Callback]:
        """Traces the model now, so that one that cannot be exported is refused before it is trained."""
        config, learner = self.data.config, self.built.learner
        if not isinstance(config, OnlineConfig) or not config.publish:
            return []
        traced = trace(learner, plan.signature, config.num_threads or 1, config.seed, self.result.directory.name)
        embeddings = {path: hash_embeddings(learner.model)[path] for path in traced.program.embeddings}

        def prepare() -> Publishable:
            return Publishable(traced.program, traced.signature, traced.dense(learner.model), embeddings)

        return [Publisher(self.result, prepare)]

    def _make_evaluation(self, stack: ExitStack, plan: LoopPlan, snapshotter: Snapshotter) -> list[Callback]:
        seed = self.data.config.seed
        if not plan.jobs:
            return []
        if not plan.is_lagged:
            every, uris = Every(**self._offline.evaluation.every.model_dump()), plan.uris
            assert isinstance(uris, EpochUris)
            watched = plan.watched.values()
            return [
                TableEvaluation(self.result, plan.jobs, seed, every, uris.uris_per_epoch, snapshotter.save, watched)
            ]
        evaluation = LaggedEvaluation(self.result, plan.jobs, seed)
        stack.callback(evaluation.close)
        return [evaluation]

    @property
    def _offline(self) -> OfflineConfig:
        assert isinstance(self.data.config, OfflineConfig)
        return self.data.config

    def _make_rules(self, plan: LoopPlan) -> list[Callback]:
        """What follows from the metrics of evaluations."""
        config, rules = self.data.config, list[Callback]()
        if config.plateau is not None:
            rate = self.built.learner.policies["lr_factor"]
            assert isinstance(rate, RateFactor)
            countdown = _countdown(config.plateau)
            rules.append(MetricPlateau(plan.watched["plateau"], countdown, rate, config.plateau.factor))
        if config.stopping is not None:
            rules.append(MetricStop(plan.watched["stopping"], _countdown(config.stopping)))
        return rules

    def _make_best(self, plan: LoopPlan) -> list[Callback]:
        if plan.is_lagged or not plan.jobs:
            return []
        metric = plan.watched.get("evaluation.best", plan.watched.get("stopping"))
        return [BestEpoch(self.result, [job.name for job in plan.jobs], metric, plan.uris.count)]

    def _make_wait(self, run: Run, snapshotter: Snapshotter, signals: Signals) -> Callable[[], None]:
        """What to do while the next hour is missing: save, so that others can use the model, then poll for a second."""
        stop_file = StopFile(self.request.out)

        def wait() -> None:
            if run.next_uri > 0:
                snapshotter.save(run)
            if stop_file.is_there():
                raise Stopped(f"stopped while waiting for new hours ({stop_file.name}). Run it again to resume")
            if signals.request.wait(_POLL_SECONDS):
                raise Stopped(f"stopped while waiting for new hours ({signals.request.reason}). Run it again to resume")

        return wait

    def _watch(self, loader: Loader, callbacks: list[Callback]) -> "ReaderWatch":
        evaluations = [each for each in callbacks if isinstance(each, LaggedEvaluation)]

        def loaders() -> list[Loader]:
            return [loader, *(other for each in evaluations for other in each.loaders)]

        return ReaderWatch(loaders, _log.warning)


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
