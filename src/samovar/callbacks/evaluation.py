"""Applies the model to other data while it trains: after hour H to hour H + shift, or after the run to whole tables.

It is the same loop with another step, and changes nothing: modes and random generators are restored.

    evaluation/<name>/20210111T05.shift1.parquet   data of 05:00, predicted by the model of 04:00
    evaluation/<name>/predictions.parquet          of an offline run
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samovar import seeds
from samovar.hours import HOUR_SECONDS, file_hour, show_hour
from samovar.results import OpenResult
from samovar.runner import Callback, Learner, Loader, PredictStep, Run, Runner, Uri, UriList
from samovar.runner.step import frozen
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

    def holds(self, hour: int) -> bool:
        """Whether this data hour is to be evaluated."""
        return (self.start is None or self.start <= hour) and (self.stop is None or hour < self.stop)


@dataclass
class LaggedEvaluation(Callback):
    """After each hour, predicts the hours that are `shifts` ahead, before the model is trained on them.

    Predictions go to files, AUC, log-loss and calibration to the metrics log. Call `close` after the run.

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
            if job.holds(hour + shift * HOUR_SECONDS)
            for line in self._evaluate(run, job, hour, shift)
        ]

    def _evaluate(self, run: Run, job: EvaluationJob, model_hour: int, shift: int) -> list[dict[str, Any]]:
        hour = model_hour + shift * HOUR_SECONDS
        # Each shift has its own loader, which reads hour after hour without a gap.
        loader = self._loaders.setdefault((job.name, shift), Loader())
        path = f"evaluation/{job.name}/{file_hour(hour)}.shift{shift}.parquet"
        file = PredictionFile(self.result, path, job.columns, model_hour)
        with frozen(run.model, seeds.derive(self.seed, "evaluation", hour, shift)):
            _write_predictions(run.learner, loader, job.find(hour), file)
        line = {"name": job.name, "hour": show_hour(hour), "shift": shift, "model_hour": show_hour(model_hour)}
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


@dataclass
class FinalEvaluation(Callback):
    """After the run, predicts each table as a whole.

    Args:
        result: The open result directory.
        jobs: The tables to predict.
        seed: For models that draw random numbers when they predict.
        before: Called first, to save what was trained.

    Example:
        >>> columns = {"y": ColumnSchema("y", "real", 1, "float")}
        >>> job = EvaluationJob("test", columns, find=lambda hour: uris.uris[0])
        >>> Runner(pool, loader, [FinalEvaluation(result, [job])]).run(run, uris)
        >>> run.metrics["evaluation"][0]["num_examples"]
        8
    """

    result: OpenResult
    jobs: Sequence[EvaluationJob]
    seed: int = 0
    before: Callable[[Run], None] = lambda run: None

    def on_run_end(self, run: Run) -> None:
        self.before(run)
        run.metrics["evaluation"] = [line for job in self.jobs for line in self._evaluate(run, job)]

    def _evaluate(self, run: Run, job: EvaluationJob) -> list[dict[str, Any]]:
        file = PredictionFile(self.result, f"evaluation/{job.name}/predictions.parquet", job.columns)
        with frozen(run.model, seeds.derive(self.seed, "evaluation")), Loader() as loader:
            _write_predictions(run.learner, loader, job.find(None), file)
        return [{"name": job.name, **quality} for quality in file.qualities()]


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
