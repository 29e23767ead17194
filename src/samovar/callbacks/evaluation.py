"""Applying the frozen model while it trains: after hour H to the hour H + shift, or after the run to whole tables.
The same loop with another step. It changes nothing: modes and random generators are put back.

evaluation/<name>/20210111T05.shift1.parquet   data of 05:00, by the model of 04:00
evaluation/<name>/predictions.parquet          of an offline run
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from samovar import seeds
from samovar.hours import HOUR_SECONDS, file_hour, show_hour
from samovar.results import OpenResult
from samovar.runner import Callback, Learner, Loader, Run, Runner, Uri
from samovar.runner.step import PredictStep, frozen
from samovar.runner.uri import UriList
from samovar.scoring.predictions import PredictionFile
from samovar.tables.schema import ColumnSchema


@dataclass(frozen=True)
class EvaluationJob:
    """One log that the model is applied to."""

    name: str
    columns: Mapping[str, ColumnSchema]
    """Of keys and targets."""
    find: Callable[[int | None], Uri]
    """The data of an hour; of the whole table for None."""
    start: int | None = None
    stop: int | None = None
    """The data hours [start, stop); None: without end."""
    shifts: Sequence[int] = ()

    def holds(self, hour: int) -> bool:
        return (self.start is None or self.start <= hour) and (self.stop is None or hour < self.stop)


@dataclass
class LaggedEvaluation(Callback):
    """After each hour, the hours that lie the shifts ahead."""

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
        # Each shift reads on by itself: its next hour follows the one that it has read.
        loader = self._loaders.setdefault((job.name, shift), Loader())
        path = f"evaluation/{job.name}/{file_hour(hour)}.shift{shift}.parquet"
        file = PredictionFile(self.result, path, job.columns, model_hour)
        with frozen(run.model, seeds.derive(self.seed, "evaluation", hour, shift)):
            apply(run.learner, loader, job.find(hour), file)
        line = {"name": job.name, "hour": show_hour(hour), "shift": shift, "model_hour": show_hour(model_hour)}
        return [{**line, **quality} for quality in file.qualities()]

    @property
    def loaders(self) -> list[Loader]:
        return list(self._loaders.values())

    def close(self) -> None:
        """End all reading ahead."""
        for loader in self._loaders.values():
            loader.close()
        self._loaders = {}


@dataclass
class FinalEvaluation(Callback):
    """After the run, each table as a whole."""

    result: OpenResult
    jobs: Sequence[EvaluationJob]
    seed: int = 0
    before: Callable[[Run], None] = lambda run: None
    """Called first, to save what was trained."""

    def on_run_end(self, run: Run) -> None:
        self.before(run)
        run.metrics["evaluation"] = [line for job in self.jobs for line in self._evaluate(run, job)]

    def _evaluate(self, run: Run, job: EvaluationJob) -> list[dict[str, Any]]:
        file = PredictionFile(self.result, f"evaluation/{job.name}/predictions.parquet", job.columns)
        with frozen(run.model, seeds.derive(self.seed, "evaluation")), Loader() as loader:
            apply(run.learner, loader, job.find(None), file)
        return [{"name": job.name, **quality} for quality in file.qualities()]


@dataclass
class _Write(Callback):
    """Hands each prediction to the file."""

    pool: PredictStep
    file: PredictionFile

    def on_batch_end(self, run: Run) -> None:
        assert run.record is not None
        self.file.add(run.record, self.pool.prediction)


def apply(learner: Learner, loader: Loader, uri: Uri, file: PredictionFile) -> None:
    """Write the predictions of one URI."""
    pool = PredictStep(learner)
    with file:
        Runner(pool, loader, [_Write(pool, file)]).run(Run(learner), UriList([uri]))
