"""The only training loop. Knows no tables, no directories and no time.

on_run_begin
for uri in uris:                          from the run's next URI on
    on_uri_begin                          EarlyStopping ends the run before this URI
    step.begin(uri)
    for record in loader.read(uri):
        step.run(record)                  train: forward, loss, backward, update
        on_batch_end
    step.drain()                          nothing is in flight any more
    on_uri_end                            EarlyStopping ends the run after all callbacks
    if a stop was requested: raise Stopped
on_run_end
"""

from collections.abc import Sequence

import torch

from samovar.errors import Stopped
from samovar.policies import EarlyStopping
from samovar.runner.callback import Callback
from samovar.runner.loader import Loader
from samovar.runner.run import Run
from samovar.runner.step import Step
from samovar.runner.uri import Uri, Uris


class Runner:
    """Takes a run through its URIs. Training, evaluation and prediction are this loop with different steps.

    `samovar train`, `PytorchTrainer` and `train_model` use it. Use it yourself to train on minibatches of your own.

    Args:
        step: What to do with each minibatch: `MinibatchWorkerPool` trains, `PredictStep` predicts.
        loader: Reads the minibatches. The caller closes it.
        callbacks: Called at the start and end of each URI and after each minibatch, in this order.

    Example:
        >>> import torch
        >>> from samovar import Learner, MinibatchRecord, MinibatchWorkerPool, Runner
        >>> from samovar.runner import ListStream, Loader, Run, Uri, UriList
        >>> from samovar.seeds import set_seed
        >>>
        >>> class Model(torch.nn.Linear):
        ...     def forward(self, inputs):
        ...         return super().forward(inputs["x"]).squeeze(1)
        >>>
        >>> set_seed(0)
        >>> x = torch.rand(64, 3)
        >>> minibatch = MinibatchRecord({"x": x}, {"y": x.sum(1)}, num_examples=64)
        >>> epochs = [Uri(k, f"epoch {k}", ListStream([minibatch] * 20), 0, 20, epoch=k) for k in range(5)]
        >>>
        >>> model = Model(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> learner = Learner(model, optimizer, lambda output, targets: (output - targets["y"]).square().mean())
        >>> run = Run(learner)
        >>> with Loader() as loader:
        ...     Runner(MinibatchWorkerPool(learner), loader).run(run, UriList(epochs))
        >>> run.num_batches, run.mean_loss < 0.1
        (100, True)
    """

    def __init__(self, step: Step, loader: Loader, callbacks: Sequence[Callback] = ()) -> None:
        self._step = step
        self._loader = loader
        self._callbacks = list(callbacks)

    def run(self, run: Run, uris: Uris) -> None:
        """Run all URIs from `run.next_uri` on.

        Args:
            run: The state to start from, which the run moves on.
            uris: All URIs of the run, also those before `run.next_uri`.

        Raises:
            Stopped: A callback called `run.stop`. The run can continue later.
        """
        for callback in self._callbacks:
            callback.on_run_begin(run)
        if run.end_reason is None:
            for uri in uris.starting_at(run.next_uri):
                self._begin(run, uri)
                if run.end_reason is not None:
                    break
                self._run_minibatches(run, uri)
                self._end(run)
                if run.stop_reason is not None:
                    raise Stopped(f"stopped after {uri.name} ({run.stop_reason}); start it again to continue")
                if run.end_reason is not None:
                    break
        run.metrics = {}
        for callback in self._callbacks:
            callback.on_run_end(run)

    def _begin(self, run: Run, uri: Uri) -> None:
        run.begin_uri(uri)
        for callback in self._callbacks:
            try:
                callback.on_uri_begin(run)
            except EarlyStopping as stopping:
                run.end_early(stopping)

    def _run_minibatches(self, run: Run, uri: Uri) -> None:
        self._step.begin(uri)
        number = 0
        try:
            for record in self._loader.read(uri):
                run.add_batch(record, self._step.run(record))
                for callback in self._callbacks:
                    callback.on_batch_end(run)
                number += 1
        except Exception as error:
            error.add_note(f"in minibatch {number} of {uri.name}")
            raise
        self._step.drain()
        run.end_uri(uri)

    def _end(self, run: Run) -> None:
        for callback in self._callbacks:
            try:
                callback.on_uri_end(run)
            except EarlyStopping as stopping:
                run.end_early(stopping)


def warm_up_vector_math() -> None:
    """Call torch's vectorized functions (sqrt, exp, sin…) for the first time, from one thread.

    The library behind them initializes itself at its first call. If two threads make that call at once, one of them may
    compute its share to four digits instead of seven: on two cores, in about one process of 700. If that hits the first
    step of Adam, the run differs from all others.
    """
    for dtype in (torch.float32, torch.float64):
        torch.sqrt(torch.ones(1, dtype=dtype, device="cpu"))
