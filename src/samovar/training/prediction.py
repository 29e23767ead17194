"""`predict`: apply a model, finished or still in training, to a table. The training loop with another step.

evaluation/predictions/<hour, or number>.parquet   one part per URI, so that a killed prediction resumes
"""

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from samovar import seeds
from samovar.callbacks import MetricsLog, Progress, Signals, Snapshotter
from samovar.config.places import Place
from samovar.config.records import Natural, check_state
from samovar.errors import ConfigError
from samovar.hours import file_hour
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin, open_directory
from samovar.results.directory import CONFIG, Epoch
from samovar.runner import Callback, Learner, Loader, Run, Runner, Uris
from samovar.runner.scaling import scale_inputs
from samovar.runner.step import PredictStep, frozen
from samovar.runner.uri import UriList
from samovar.scoring.measuring import Measuring
from samovar.scoring.predictions import PredictionFile
from samovar.scoring.signature import Signature
from samovar.store import open_store
from samovar.training.inputs import DataSource, TableOpener
from samovar.training.schema import Config, Dates, OfflineConfig, load_config
from samovar.training.script import read_kept_script
from samovar.training.session import MODEL_KIND, build_learner, report
from samovar.training.uris import EpochUris, HourSource

PREDICTION_KIND = "prediction"
FOLDER = "evaluation/predictions"
_BATCHES_PER_PART = 4000


@dataclass(frozen=True)
class PredictRequest:
    """Predictions that are asked for.

    Attributes:
        model: A model directory.
        table: A tensor table.
        out: The directory of the predictions. None: beside the model, named after both.
        keys: Columns that identify an example, written beside the predictions.
        targets: Columns to write beside the predictions and measure them by.
        features: Columns for the model. None: those of training.
        dates: start_date, end_date, datetime_format, timezone.
        snapshot_seconds: How much work a kill may cost.
        epoch: "last", or "best" for the state after the best evaluation of training.

    Example:
        >>> str(PredictRequest(Path("models/click"), Path("tables/new")).place)
        'models/click_on_new'
    """

    model: Place
    table: Place
    out: Place | None = None
    keys: Sequence[str] = ()
    targets: Sequence[str] = ()
    features: Sequence[str] | None = None
    dates: dict[str, str] = field(default_factory=dict)
    snapshot_seconds: float = 30.0
    epoch: Epoch = "last"

    @property
    def place(self) -> Place:
        """Where the predictions go."""
        name = f"{self.model.resolve().name}_on_{self.table.resolve().name}"
        return self.model.with_name(name) if self.out is None else self.out


@dataclass(frozen=True)
class PredictResult:
    """Predictions that are written.

    Attributes:
        directory: Their directory.
        num_examples: How many were written. None: there was nothing to do.
        notes: What a user should look at.

    Example:
        >>> run_prediction(PredictRequest(Path("models/click"), Path("clicks"), Path("scores_1"), ["hit"])).num_examples
        200
    """

    directory: Place
    num_examples: int | None
    notes: Sequence[str]


def run_prediction(request: PredictRequest, console: Console | None = None) -> PredictResult:
    """Write the predictions of a model for a table, or resume writing them.

    Args:
        request: Model, table, columns and hours. An unfinished model is used as of its newest snapshot.
        console: Where to show progress. None: nowhere.

    Returns:
        The directory, and how many examples were predicted.

    Raises:
        Stopped: A signal ended the run. Run it again to resume it.
        UserError: The table does not fit the model, or the directory belongs to another prediction.

    Example:
        >>> run_prediction(PredictRequest(Path("models/click"), Path("clicks"), Path("scores_2"), ["hit"])).num_examples
        200
    """
    origin = open_directory(request.model, MODEL_KIND)
    model = origin.load_model(request.epoch)
    config = load_config(origin.config, f"{origin.name}/{CONFIG}")
    directory = ResultDirectory(open_store(request.place))
    source = TableOpener(Path.cwd(), directory).source(
        "", str(request.table), None, request.features, request.targets, request.keys
    )
    sources = [origin.as_source("source"), *source.lineage]
    plan = ResultPlan(PREDICTION_KIND, _make_config(request, model.position), sources=sources)
    if directory.is_finished:
        return PredictResult(request.place, None, report(begin(directory, plan).notes))
    learner = build_learner(config, read_kept_script(origin)).learner
    source = source.with_features(_find_features(config, learner, origin.name))
    source.check_columns()
    uris = _plan_uris(source, request)
    signature = Signature.read(origin.store)
    signature.refuse_other_scales([source.column(name) for name in source.features or ()], source.name)
    scale_inputs(learner.model, signature.inputs)
    Run(learner).load_model(model.tree)
    with begin(directory, plan) as result:
        report(result.notes)
        num_examples = _write(result, learner, source, uris, config.seed, request.snapshot_seconds, console)
        return PredictResult(request.place, num_examples, result.notes)


def _make_config(request: PredictRequest, position: Any) -> dict[str, Any]:
    """The config of the result. It includes the model's position, because the model may still be in training."""
    return {
        "source": str(request.model.resolve()),
        "position": position,
        "table": str(request.table.resolve()),
        "keys": list(request.keys),
        "targets": list(request.targets),
        **({"features": list(request.features)} if request.features is not None else {}),
        **({"epoch": request.epoch} if request.epoch != "last" else {}),
        **request.dates,
    }


def _find_features(config: Config, learner: Learner, name: str) -> list[str]:
    """The columns that the model was trained on."""
    data = config.train_data
    if data.features is not None:
        return list(data.features)
    required = learner.required_features()
    if required is not None:
        return required
    merged = None if isinstance(config, OfflineConfig) else config.train_data.merge_tables
    listed = [feature for table in merged.tables for feature in table.features or ()] if merged is not None else []
    if not listed:
        raise ConfigError(f"{name}: its config lists no features. Give them with --features (features=[…] in Python)")
    return listed


def _plan_uris(source: DataSource, request: PredictRequest) -> Uris:
    """One URI per hour, or per few thousand minibatches if the table has no hours."""
    table = source.inputs[0].table
    hours = [hour for hour in table.hours if hour is not None]
    start, stop = Dates.load(dict(request.dates), "predict").hours
    if not hours:
        if start is not None or stop is not None:
            raise ConfigError(f"predict: {table.name} has no hours. Remove start_date and end_date")
        return EpochUris(table, source.columns, 1, uri_granularity=_BATCHES_PER_PART)
    for key, hour in (("start_date", start), ("end_date", stop)):
        table.period.require_start(f"predict: {key}", hour, table.name)
    chosen = [hour for hour in hours if (start is None or start <= hour) and (stop is None or hour < stop)]
    if not chosen:
        raise ConfigError(
            f"predict: no hour of {table.name} is between start_date and end_date. "
            f"Choose from {table.period.show(hours[0])} to {table.period.show(hours[-1])}"
        )
    found = HourSource(source, chosen[0], None)
    return UriList([found.uri(hour, number) for number, hour in enumerate(chosen)])


def _write(
    result: OpenResult,
    learner: Learner,
    source: DataSource,
    uris: Uris,
    seed: int,
    snapshot_seconds: float,
    console: Console | None,
) -> int:
    run, step = Run(learner, {}), PredictStep(learner, is_exact=True)
    snapshot = result.restore(_check_position)
    if snapshot is not None:
        position = _check_position(snapshot.tree)
        run.next_uri, run.num_examples = position.next_uri, position.num_examples
    with ExitStack() as stack:
        signals = stack.enter_context(Signals())
        loader = stack.enter_context(Loader())
        progress = [] if console is None else [stack.enter_context(Progress(uris.count, console=console))]
        callbacks = [
            _PartWriter(result, step, source, seed, Measuring(own=learner.metrics)),
            MetricsLog(result, has_training=False),
            *progress,
            signals,
            Snapshotter(result, snapshot_seconds, state=_position),
        ]
        stack.enter_context(frozen(learner.model, seed))
        Runner(step, loader, callbacks).run(run, uris)
    result.finish(None, run.position)
    return run.num_examples


@dataclass(frozen=True)
class _Position:
    """The state of a prediction."""

    next_uri: Natural
    num_examples: Natural


def _check_position(tree: object) -> _Position:
    return check_state(_Position, tree, "the state of the prediction")


def _position(run: Run) -> dict[str, int]:
    return {"next_uri": run.next_uri, "num_examples": run.num_examples}


@dataclass
class _PartWriter(Callback):
    """Writes one file per URI."""

    result: OpenResult
    step: PredictStep
    source: DataSource
    seed: int
    how: Measuring
    _file: PredictionFile | None = None

    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        # Each part must be the same whichever parts this process wrote before it.
        seeds.set_seed(seeds.derive(self.seed, "prediction", run.uri.hour or run.uri.number))
        name = file_hour(run.uri.hour, self.source.period) if run.uri.hour is not None else f"{run.uri.number:06d}"
        columns = {column: self.source.column(column) for column in [*self.source.targets, *self.source.keys]}
        self._file = PredictionFile(self.result, f"{FOLDER}/{name}.parquet", columns, how=self.how)

    def on_batch_end(self, run: Run) -> None:
        assert self._file is not None
        assert run.record is not None
        self._file.add(run.record, self.step.prediction)

    def on_uri_end(self, run: Run) -> None:
        assert self._file is not None
        assert run.uri is not None
        with self._file as file:
            pass
        hour = {"hour": self.source.period.show(run.uri.hour)} if run.uri.hour is not None else {}
        run.metrics["evaluation"] = [{"name": "predictions", **hour, **quality} for quality in file.qualities()]
