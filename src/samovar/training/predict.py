"""`predict`: a model, finished or not, applied to a table; the same loop with another step.

evaluation/predictions/<hour, or part>.parquet   a part a URI, so that a killed prediction goes on
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from samovar import seeds
from samovar.callbacks import MetricsLog, Progress, Signals, Snapshotter
from samovar.errors import ConfigError
from samovar.hours import file_hour, show_hour
from samovar.results import OpenResult, ResultDirectory, ResultPlan, Source, begin, open_directory
from samovar.results.directory import CONFIG
from samovar.runner import Callback, Learner, Loader, Run, Runner, Uris
from samovar.runner.step import PredictStep, frozen
from samovar.runner.uri import UriList
from samovar.scoring.predictions import PredictionFile
from samovar.store import LocalStore
from samovar.training.inputs import DataSource, TableOpener
from samovar.training.schema import Config, Dates, OfflineConfig, load_config
from samovar.training.script import read_script
from samovar.training.train import build_learner
from samovar.training.uris import EpochUris, HourSource

PREDICTION_KIND = "prediction"
FOLDER = "evaluation/predictions"
_BATCHES_PER_PART = 4000


@dataclass(frozen=True)
class PredictRequest:
    model: Path
    table: Path
    out: Path
    keys: Sequence[str] = ()
    targets: Sequence[str] = ()
    features: Sequence[str] | None = None
    """Those of training when absent."""
    dates: dict[str, str] = field(default_factory=dict)
    """start_date, end_date, datetime_format, timezone."""
    snapshot_seconds: float = 30.0
    """How much work a kill may cost."""


@dataclass(frozen=True)
class PredictResult:
    directory: Path
    num_examples: int | None
    """None: it was there already."""
    notes: Sequence[str]


def predict(request: PredictRequest, console: Console | None = None) -> PredictResult:
    """Write the predictions, or go on writing them; the model may still be in training."""
    origin = open_directory(request.model)
    model = origin.load_model()
    config = load_config(origin.config, f"{origin.name}/{CONFIG}")
    directory = ResultDirectory(LocalStore(request.out))
    source = TableOpener(Path.cwd(), directory).source(
        "", str(request.table), None, request.features, request.targets, request.keys
    )
    plan = ResultPlan(PREDICTION_KIND, _describe(request, model.position), sources=_lineage(request, origin, source))
    if directory.is_finished:
        return PredictResult(request.out, None, begin(directory, plan).notes)
    learner = build_learner(config, read_script(request.model / "script.py")).learner
    source = source.with_features(_features(config, learner, origin.name))
    source.check_columns()
    uris = _cut(source, request)
    Run(learner).load_model(model.tree)
    with begin(directory, plan) as result:
        count = _work(result, learner, source, uris, config.seed, request.snapshot_seconds, console)
        return PredictResult(request.out, count, result.notes)


def _describe(request: PredictRequest, position: Any) -> dict[str, Any]:
    """The config of the result: also where the model was, which may still be learning."""
    return {
        "source": str(request.model.resolve()),
        "position": position,
        "table": str(request.table.resolve()),
        "keys": list(request.keys),
        "targets": list(request.targets),
        **({"features": list(request.features)} if request.features is not None else {}),
        **request.dates,
    }


def _lineage(request: PredictRequest, origin: ResultDirectory, source: DataSource) -> list[Source]:
    return [origin.as_source("source"), *source.lineage]


def _features(config: Config, learner: Learner, name: str) -> list[str]:
    """What the model was trained on."""
    data = config.train_data
    if data.features is not None:
        return list(data.features)
    required = learner.required_features()
    if required is not None:
        return required
    merged = None if isinstance(config, OfflineConfig) else config.train_data.merge_tables
    named = [feature for table in merged.tables for feature in table.features or ()] if merged is not None else []
    if not named:
        raise ConfigError(f"{name}: its config names no features; expected them: give --features")
    return named


def _cut(source: DataSource, request: PredictRequest) -> Uris:
    """Hours, or thousands of minibatches."""
    table = source.inputs[0].table
    hours = [hour for hour in table.hours if hour is not None]
    start, stop = Dates.load(dict(request.dates), "predict").hours
    if not hours:
        if start is not None or stop is not None:
            raise ConfigError(f"predict: {table.name} has no hours; expected no dates then: leave them out")
        return EpochUris(table, source.columns, 1, uri_granularity=_BATCHES_PER_PART)
    wanted = [hour for hour in hours if (start is None or start <= hour) and (stop is None or hour < stop)]
    if not wanted:
        raise ConfigError(
            f"predict: {table.name} has the hours {show_hour(hours[0])} to {show_hour(hours[-1])}, and none of those "
            "that are asked for: mend the dates"
        )
    found = HourSource(source, wanted[0], None)
    return UriList([found.uri(hour, number) for number, hour in enumerate(wanted)])


@dataclass
class _WriteParts(Callback):
    """A file a URI."""

    result: OpenResult
    pool: PredictStep
    source: DataSource
    seed: int
    _file: PredictionFile | None = None

    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        # A part is the same whichever came before it in this process.
        seeds.set_seed(seeds.derive(self.seed, "prediction", run.uri.hour or run.uri.number))
        name = file_hour(run.uri.hour) if run.uri.hour is not None else f"{run.uri.number:06d}"
        columns = {column: self.source.column(column) for column in [*self.source.targets, *self.source.keys]}
        self._file = PredictionFile(self.result, f"{FOLDER}/{name}.parquet", columns)

    def on_batch_end(self, run: Run) -> None:
        assert self._file is not None
        assert run.record is not None
        self._file.add(run.record, self.pool.prediction)

    def on_uri_end(self, run: Run) -> None:
        assert self._file is not None
        assert run.uri is not None
        with self._file as file:
            pass
        hour = {"hour": show_hour(run.uri.hour)} if run.uri.hour is not None else {}
        run.metrics["evaluation"] = [{"name": "predictions", **hour, **quality} for quality in file.qualities()]


def _work(
    result: OpenResult,
    learner: Learner,
    source: DataSource,
    uris: Uris,
    seed: int,
    snapshot_seconds: float,
    console: Console | None,
) -> int:
    run, pool = Run(learner, {}), PredictStep(learner)
    snapshot = result.restore()
    if snapshot is not None:
        run.next_uri, run.num_examples = snapshot.tree["next_uri"], snapshot.tree["num_examples"]
    with ExitStack() as stack:
        signals = stack.enter_context(Signals(console))
        loader = stack.enter_context(Loader())
        shown = [] if console is None else [stack.enter_context(Progress(uris.count, console=console))]
        callbacks = [
            _WriteParts(result, pool, source, seed),
            MetricsLog(result, has_training=False),
            *shown,
            signals,
            Snapshotter(result, snapshot_seconds, state=_position),
        ]
        stack.enter_context(frozen(learner.model, seed))
        Runner(pool, loader, callbacks).run(run, uris)
    result.finish(None, run.position)
    return run.num_examples


def _position(run: Run) -> dict[str, int]:
    return {"next_uri": run.next_uri, "num_examples": run.num_examples}
