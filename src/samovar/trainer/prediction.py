"""Applying a net to a stream: the same loop with another step."""

from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

import numpy as np
import torch
from rich.console import Console

from samovar.callbacks import Progress
from samovar.callbacks.evaluation import frozen
from samovar.errors import BadInput
from samovar.runner import Callback, Learner, Loader, Run, Runner, Stream, Uri
from samovar.runner.pool import PredictionPool
from samovar.runner.uri import UriList
from samovar.trainer.steps import NetOfInputs


class _Collect(Callback):
    def __init__(self, pool: PredictionPool) -> None:
        self._pool = pool
        self.predictions: list[np.ndarray[Any, Any]] = []

    def on_batch_end(self, run: Run) -> None:
        self.predictions.append(to_numpy(self._pool.prediction))


def predict_stream(
    net: torch.nn.Module, postproc: Callable[[Any], Any], stream: Stream, verbose: bool
) -> np.ndarray[Any, Any]:
    learner = Learner(NetOfInputs(net), [], lambda output, targets: output, predict=postproc)
    pool = PredictionPool(learner)
    collect = _Collect(pool)
    uri = Uri(0, "prediction", stream, 0, stream.num_batches, 0)
    with ExitStack() as stack:
        shown: list[Callback] = []
        console = Console(stderr=True, highlight=False)
        if verbose and console.is_terminal:
            shown = [stack.enter_context(Progress(1, console=console))]
        stack.enter_context(frozen(net, 0))
        loader = stack.enter_context(Loader([], []))
        Runner(pool, loader, [collect, *shown]).run(Run(learner, {}), UriList([uri]))
    return np.concatenate(collect.predictions)


def to_numpy(prediction: Any) -> np.ndarray[Any, Any]:
    if isinstance(prediction, torch.Tensor):
        array: np.ndarray[Any, Any] = prediction.detach().cpu().numpy()
        return array
    if isinstance(prediction, np.ndarray):
        return prediction
    raise BadInput(
        f"postproc: gave {type(prediction).__name__}; expected a tensor with an axis of examples: return one"
    )
