"""The interface for everything that happens around training. Knows nothing about what callbacks do."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar.runner.run import Run


class Callback:
    """Code that runs at the start and end of a run and of its URIs, and after each minibatch: logs, evaluation,
    snapshots, stop rules.

    Subclass it and override the methods you need. A run calls its callbacks in their order:

        on_run_begin                    once per process, after the state is restored
        for uri in uris:                a URI is an hour of data, or a piece of an epoch
            on_uri_begin
            for minibatch in uri:
                on_batch_end            only observes
            on_uri_end                  no minibatch is in flight, and gradients are gone: measure, log, save
        on_run_end                      after the last URI

    Every method gets the `Run`. Read from it what you need:

        run.model  run.optimizers  run.policies      what is being trained
        run.uri                                      the current URI: `name`, `number`, `epoch`, `hour`
        run.loss  run.record                         the last minibatch, in `on_batch_end`
        run.losses  run.mean_loss                    all minibatches of this URI
        run.num_batches  run.num_examples            since the run began
        run.metrics                                  numbers for the logs: add your own in `on_uri_end`

    Give your callbacks to the learner: `Learner(..., callbacks=[WeightNorm()])`. At the end of a URI they run after
    evaluation, and before the logs and the snapshot.

    To end a run before its last URI, raise `samovar.EarlyStopping` in `on_uri_begin` or `on_uri_end`; the model is
    finished as usual. To pause it, call `run.stop(reason)`; it stops after this URI and continues when started again.

    A callback that remembers something returns it from `state_dict`, so that a resumed run continues with it.
    `samovar.testing.CallbackContract` tests that yours does.

    Example:
        Log the norm of the dense weights after each URI. It appears in `logs/metrics.jsonl` and in TensorBoard.

        >>> from samovar import Callback, EarlyStopping
        >>> class WeightNorm(Callback):
        ...     def on_uri_end(self, run):
        ...         squares = [float(weights.square().sum()) for weights in run.model.parameters()]
        ...         run.metrics["weight_norm"] = sum(squares) ** 0.5

        End the run when the loss of three URIs in a row was below a limit.

        >>> class GoodEnough(Callback):
        ...     def __init__(self, limit):
        ...         self.limit = limit
        ...         self.num_good = 0
        ...
        ...     def on_uri_end(self, run):
        ...         is_good = run.mean_loss is not None and run.mean_loss < self.limit
        ...         self.num_good = self.num_good + 1 if is_good else 0
        ...         if self.num_good == 3:
        ...             raise EarlyStopping(f"the loss stayed below {self.limit}")
        ...
        ...     def state_dict(self):
        ...         return {"num_good": self.num_good}
        ...
        ...     def load_state_dict(self, state):
        ...         self.num_good = state["num_good"]
    """

    def on_run_begin(self, run: "Run") -> None:
        """Called once per process, after the state is restored.

        Args:
            run: The live state of the loop.
        """

    def on_uri_begin(self, run: "Run") -> None:
        """Called before the first minibatch of `run.uri`, which may have none.

        Args:
            run: The live state of the loop.
        """

    def on_batch_end(self, run: "Run") -> None:
        """Called after each minibatch, with its `run.loss` and `run.record`. Observe only: change nothing here.

        Only here can gradients be read, already clipped, and only those of dense parameters: hash tables expose none.
        With `step_minibatches` they are None except after the minibatch that completes a step, and those of an
        incomplete last step are never visible.

        Args:
            run: The live state of the loop.
        """

    def on_uri_end(self, run: "Run") -> None:
        """Called after the last minibatch of `run.uri`.

        Args:
            run: The live state of the loop.
        """

    def on_run_end(self, run: "Run") -> None:
        """Called after the last URI, but not when the run is stopped or fails.

        Args:
            run: The live state of the loop.
        """

    def state_dict(self) -> Mapping[str, Any]:
        """Return what a snapshot keeps: numbers, strings, tensors, arrays, and lists and dicts of them."""
        return {}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore what `state_dict` returned.

        Args:
            state: What `state_dict` returned.
        """
