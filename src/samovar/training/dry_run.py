"""`--dry-run N`: train on a few minibatches to see shapes, speed and loss. Writes nothing."""

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from samovar.callbacks import NanGuard, PolicyClock
from samovar.results import ResultDirectory
from samovar.runner import Callback, Learner, Loader, MinibatchRecord, MinibatchWorkerPool, Run, Runner, Uri, Uris
from samovar.runner.device import choose_device, place_learner
from samovar.runner.scaling import scale_inputs
from samovar.runner.step import PredictStep, frozen
from samovar.runner.uri import UriList
from samovar.store import MemoryStore
from samovar.tables.record import Bag
from samovar.training.inputs import TableOpener
from samovar.training.plan import open_training_data, plan_loop
from samovar.training.request import Request, make_effective_config
from samovar.training.schema import load_config
from samovar.training.session import build_learner, step_options
from samovar.training.warm_start import start_model


@dataclass
class _Recorder(Callback):
    """Keeps the first minibatch, every loss, and the times of start and end."""

    first: MinibatchRecord | None = None
    losses: list[float] = field(default_factory=list)
    started: float = field(default_factory=time.perf_counter)
    ended: float = 0.0

    def on_batch_end(self, run: Run) -> None:
        assert run.loss is not None
        self.first = self.first or run.record
        self.losses.append(run.loss)
        self.ended = time.perf_counter()


def try_batches(request: Request, num_batches: int) -> str:
    """Train on the first minibatches and describe the run: shapes, speed and loss. Writes nothing.

    Args:
        request: Config and script, as `make_request` reads them.
        num_batches: How many minibatches to train on.

    Returns:
        Lines for people.

    Raises:
        UserError: The config, the script or the tables cannot be used.

    Example:
        >>> from samovar.training import make_request
        >>> print(try_batches(make_request("click.json", "model.py"), 2).splitlines()[0])
        input user bag: data [64], data_len [64]
    """
    no_directory = ResultDirectory(MemoryStore())
    effective = make_effective_config(request.tree, request.folder, Path("dry_run"), no_directory)
    config = load_config(effective, request.where)
    data = open_training_data(config, TableOpener(request.folder, no_directory))
    learner = build_learner(config, request.script).learner
    plan = plan_loop(data, learner, _refuse_to_wait)
    scale_inputs(learner.model, plan.signature.inputs)
    place_learner(learner, choose_device(config.device))
    pool, recorder = MinibatchWorkerPool(learner, step_options(config)), _Recorder()
    run = Run(learner, pool.settings.policies)
    start_model(run, config, plan.signature)
    with Loader() as loader:
        uris = UriList(_first_batches(plan.uris, num_batches))
        Runner(pool, loader, [recorder, PolicyClock(), NanGuard()]).run(run, uris)
    return "\n".join([*plan.notes, *_describe(learner, run, recorder)])


class _HourMissing(Exception):
    """The next hour of a live table is not there; a dry run does not wait for it."""


def _refuse_to_wait() -> None:
    raise _HourMissing


def _first_batches(uris: Uris, num_batches: int) -> list[Uri]:
    found: list[Uri] = []
    with suppress(_HourMissing):
        for uri in uris.starting_at(0):
            found.append(replace(uri, num_batches=min(uri.num_batches, num_batches)))
            num_batches -= uri.num_batches
            if num_batches <= 0:
                break
    return found


def _describe(learner: Learner, run: Run, recorder: _Recorder) -> Iterator[str]:
    if recorder.first is None:
        yield "these hours have no rows"
        return
    for role, values in (("input", recorder.first.inputs), ("target", recorder.first.targets)):
        for name, value in values.items():
            yield f"{role:<10} {name:<24} {_shape(value)}"
    step = PredictStep(learner)
    with frozen(learner.model, 0):
        step.run(recorder.first)
    named = step.prediction if isinstance(step.prediction, dict) else {"prediction": step.prediction}
    for name, value in named.items():
        yield f"{'output':<10} {name:<24} {_shape(value)}"
    dense = sum(weights.numel() for weights in learner.model.parameters())
    yield f"{dense:,} dense weights"
    speed = run.num_examples / max(recorder.ended - recorder.started, 1e-9)
    yield f"{run.num_batches} minibatches, {run.num_examples:,} examples: {speed:,.0f} examples/s, including start-up"
    yield f"loss {recorder.losses[0]:.6g} → {recorder.losses[-1]:.6g}"


def _shape(value: Any) -> str:
    if isinstance(value, Bag):
        return f"bag: data {list(value.data.shape)}, data_len {list(value.data_len.shape)}"
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return type(value).__name__
