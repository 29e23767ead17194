"""Applies the model to other data while it trains: after hour H to hour H + shift, or after epochs to whole tables.

It is the same loop with another step, and changes nothing: modes and random generators are restored.

    evaluation/<name>/20210111T05.shift1.parquet   data of 05:00, predicted by the model of 04:00
    evaluation/<name>/uri000004.parquet            of an offline run, after URI 4 (see `watching` for what is kept)
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any

from samovar import seeds
from samovar.callbacks.watching import WatchedMetric, prediction_path
from samovar.hours import HOURLY, Period, file_hour
from samovar.results import OpenResult
from samovar.runner import Callback, Learner, Loader, PredictStep, Run, Runner, Uri, UriList
from samovar.runner.step import frozen
from samovar.scoring.measuring import Measuring
from samovar.scoring.outputs import MeasuredOutputs
from samovar.scoring.predictions import PredictionFile
from samovar.tables.schema import ColumnSchema


@dataclass(frozen=True)
class EvaluationJob:
    """Data that the model is applied to.

    Args:
        name: Its folder in `evaluation/`.
        columns: The schemas of its keys and targets.
        find: Returns the URI of an hour, or of the whole table for None.
        start: The first data hour, in seconds since 1970 UTC; None if there is no limit.
        stop: The hour after the last; None if there is no limit.
        shifts: How many hours after the model's hour the data is.
        period: What `shifts` counts, if not hours.
        how: Task, weights and own metrics.

    Example:
        >>> data = uris.uris[0]
        >>> job = EvaluationJob("test", {"y": ColumnSchema("y", "real", 1, "float")}, find=lambda hour: data)
    """

    name: str
    columns: Mapping[str, ColumnSchema]
    find: Callable[[int | None], Uri]
    start: int | None = None
    stop: int | None = None
    shifts: Sequence[int] = ()
    period: Period = HOURLY
    how: Measuring = field(default_factory=Measuring)

    def shifted(self, hour: int, shift: int) -> int:
        """The data hour that is `shift` hours, or other periods, later.

        Args:
            hour: The hour of the model, in seconds since 1970 UTC.
            shift: How many.
        """
        return self.period.shift(hour, shift)

    def holds(self, hour: int) -> bool:
        """Whether this data hour is to be evaluated.

        Args:
            hour: The data hour, in seconds since 1970 UTC.
        """
        return (self.start is None or self.start <= hour) and (self.stop is None or hour < self.stop)


@dataclass
class LaggedEvaluation(Callback):
    """After each hour, predicts the hours that are `shifts` ahead, before the model is trained on them.

    Predictions go to files, metrics to the metrics log. Call `close` after the run.

    Args:
        result: The open result directory.
        jobs: The data to predict.
        seed: For models that draw random numbers when they predict.

    Example:
        >>> data = {uri.hour: uri for uri in uris.uris}
        >>> columns = {"y": ColumnSchema("y", "real", 1, "float")}
        >>> job = EvaluationJob("test", columns, data.__getitem__, stop=5 * 3600, shifts=[1])
        >>> evaluation = LaggedEvaluation(result, [job])
        >>> Runner(pool, loader, [evaluation]).run(run, uris)
        >>> evaluation.close()
    """

    result: OpenResult
    jobs: Sequence[EvaluationJob]
    seed: int = 0
    _loaders: dict[tuple[str, int], Loader] = field(default_factory=dict, init=False, repr=False)

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        hour = run.uri.hour
        assert hour is not None
        run.metrics["evaluation"] = [
            line
            for job in self.jobs
            for shift in job.shifts
            if job.holds(job.shifted(hour, shift))
            for line in self._evaluate(run, job, hour, shift)
        ]

    def _evaluate(self, run: Run, job: EvaluationJob, model_hour: int, shift: int) -> list[dict[str, Any]]:
        hour = job.shifted(model_hour, shift)
        # Each shift has its own loader, which reads hour after hour without a gap.
        loader = self._loaders.setdefault((job.name, shift), Loader())
        path = f"evaluation/{job.name}/{file_hour(hour, job.period)}.shift{shift}.parquet"
        file = PredictionFile(self.result, path, job.columns, model_hour, job.how)
        with frozen(run.model, seeds.derive(self.seed, "evaluation", hour, shift)):
            _write_predictions(run.learner, loader, job.find(hour), file)
        show = job.period.show
        line = {"name": job.name, "hour": show(hour), "shift": shift, "model_hour": show(model_hour)}
        if job.period != HOURLY:
            line["lag"] = job.period.lag(shift)
        return [{**line, **quality} for quality in file.qualities()]

    @property
    def loaders(self) -> list[Loader]:
        """The loaders in use, for `ReaderWatch`, which reports data that does not arrive."""
        return list(self._loaders.values())

    def close(self) -> None:
        """Stop reading ahead."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders = {}


@dataclass(frozen=True)
class Every:
    """When tables are evaluated: after every `epochs` epochs, or after every `uris` URIs if that is set.

    Example:
        >>> print(*(uri.number for uri in uris.uris if Every(uris=2).is_due(uri)))
        1 3
    """

    epochs: int = 1
    """Epochs from one evaluation to the next."""
    uris: int | None = None
    """URIs from one evaluation to the next, instead of epochs."""

    def is_due(self, uri: Uri) -> bool:
        """Whether to evaluate after this URI.

        Args:
            uri: The URI that has just ended.
        """
        if self.uris is not None:
            return (uri.number + 1) % self.uris == 0
        return uri.is_epoch_end and (uri.epoch + 1) % self.epochs == 0


@dataclass
class TableEvaluation(Callback):
    """After epochs, and after the last URI in any case, predicts each table as a whole.

    Args:
        result: The open result directory.
        jobs: The tables to predict.
        seed: For models that draw random numbers when they predict.
        every: When.
        uris_per_epoch: To tell which epoch a URI belongs to.
        before: Called before the evaluation of a last URI that was not due, to save what was trained.
        watched: Metrics that rules look at. One that will not be measured is an error before the first URI.

    Example:
        >>> columns = {"y": ColumnSchema("y", "real", 1, "float")}
        >>> job = EvaluationJob("test", columns, find=lambda hour: uris.uris[0])
        >>> Runner(pool, loader, [TableEvaluation(result, [job], every=Every(epochs=10))]).run(run, uris)
        >>> next(iter(run.metrics["evaluation"])).get("num_examples")
        8
    """

    result: OpenResult
    jobs: Sequence[EvaluationJob]
    seed: int = 0
    every: Every = Every()
    uris_per_epoch: int = 1
    before: Callable[[Run], None] = lambda run: None
    watched: Iterable[WatchedMetric] = ()
    _done: int | None = field(default=None, init=False, repr=False)
    """The last URI that was evaluated."""

    def on_run_begin(self, run: Run) -> None:
        for metric in self.watched if run.next_uri == 0 else ():
            job = max(
                (each for each in self.jobs if metric.name.startswith(f"{each.name}.")), key=lambda job: len(job.name)
            )
            if metric.name.rpartition(".")[2] not in job.how.own:
                self._refuse_unmeasured(run, job, metric)

    def _refuse_unmeasured(self, run: Run, job: EvaluationJob, metric: WatchedMetric) -> None:
        """The untrained model predicts the first minibatch, and all others only if the metric is missing: later targets
        may be other numbers than 0 and 1."""
        measured, step = MeasuredOutputs(job.name, job.columns, replace(job.how, own={})), PredictStep(run.learner)
        lines: list[dict[str, Any]] = []
        with frozen(run.model, seeds.derive(self.seed, "evaluation")), Loader() as loader:
            records = loader.read(job.find(None))
            for part in (islice(records, 1), records):
                for record in part:
                    step.run(record)
                    measured.add(record, step.prediction)
                lines = [{"name": job.name, **line} for line in measured.lines()]
                if metric.is_in(lines):
                    return
        metric.find(lines)

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        if self.every.is_due(run.uri):
            self._evaluate_all(run)

    def on_run_end(self, run: Run) -> None:
        if self._done != run.next_uri - 1:
            self.before(run)
            self._evaluate_all(run)
        self._done = None  # the final model has no use for it

    def _evaluate_all(self, run: Run) -> None:
        self._done = run.next_uri - 1
        run.metrics["evaluation"] = [line for job in self.jobs for line in self._evaluate(run, job)]

    def _evaluate(self, run: Run, job: EvaluationJob) -> list[dict[str, Any]]:
        uri = run.next_uri - 1
        file = PredictionFile(self.result, prediction_path(job.name, uri), job.columns, how=job.how)
        with frozen(run.model, seeds.derive(self.seed, "evaluation")), Loader() as loader:
            _write_predictions(run.learner, loader, job.find(None), file)
        line = {"name": job.name, "epoch": uri // self.uris_per_epoch, "trained": run.trained}
        return [{**line, **quality} for quality in file.qualities()]

    def state_dict(self) -> Mapping[str, Any]:
        return {} if self._done is None else {"done": self._done}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._done = state.get("done")


def _write_predictions(learner: Learner, loader: Loader, uri: Uri, file: PredictionFile) -> None:
    step = PredictStep(learner)
    with file:
        Runner(step, loader, [_AddToFile(step, file)]).run(Run(learner), UriList([uri]))


@dataclass
class _AddToFile(Callback):
    step: PredictStep
    file: PredictionFile

    def on_batch_end(self, run: Run) -> None:
        assert run.record is not None
        self.file.add(run.record, self.step.prediction)
