"""What the loop does with one minibatch: train on it, or predict. Knows no callbacks and no files.

A step is complete when `run` returns, or `drain` if it has several minibatches: nothing is in flight when a URI ends.
Reading ahead is the loader's work.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import torch

from samovar import seeds
from samovar.embeddings.optimizers import HashOptimizer
from samovar.errors import BadInput, SamovarError
from samovar.runner.compiled import compile_for_training
from samovar.runner.device import device_of, to_cpu, to_device
from samovar.runner.learner import Inputs, Learner, find_hash_tables
from samovar.runner.schedules import PolicySettings, advance
from samovar.runner.slices import GradientTree, OpenStep
from samovar.runner.uri import Uri
from samovar.scoring.tiles import score
from samovar.tables.record import MinibatchRecord


class Step(Protocol):
    """What the loop needs: `MinibatchWorkerPool` trains, `PredictStep` predicts."""

    def begin(self, uri: Uri) -> None:
        """A URI begins."""

    def run(self, record: MinibatchRecord) -> float | None:
        """Process one minibatch. Returns its loss, if there is one."""

    def drain(self) -> None:
        """The URI ends. A step that works in the background must finish here."""


@dataclass(frozen=True)
class StepOptions:
    """How a step is computed: the config keys of the same names. All of them change the result.

    Args:
        step_minibatches: Minibatches per step. Each is computed alone; their gradients are averaged by their examples.
        clip_norm: The gradient of the dense parameters is scaled down to this norm. Hash tables are clipped by their
            optimizers.
        precision: "fp32", or "bf16": the model trains under autocast to bfloat16. Losses and weights stay in float32.
        compile: Whether the dense part is trained through `torch.compile`.

    Example:
        >>> options = StepOptions(step_minibatches=4, clip_norm=1.0)  # for MinibatchWorkerPool(learner, options)
        >>> options.precision
        'fp32'
    """

    step_minibatches: int = 1
    clip_norm: float | None = None
    precision: Literal["fp32", "bf16"] = "fp32"
    compile: bool = False


class MinibatchWorkerPool:
    """The step that trains: forward, loss, backward, update.

    Args:
        learner: What to train. Its policies are written into its optimizers before each step. Create the pool
            before you restore a state: `lr_factor` multiplies the rate that the optimizer was built with.
        options: How to compute a step.

    Raises:
        BadInput: A policy sets what no optimizer has, or `compile` is asked for without a C++ compiler.

    Example:
        >>> import torch
        >>> from samovar import Learner, MinibatchRecord, MinibatchWorkerPool
        >>> class Model(torch.nn.Linear):
        ...     def forward(self, inputs):
        ...         return super().forward(inputs["x"]).squeeze(1)
        >>> model = Model(3, 1)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        >>> learner = Learner(model, optimizer, lambda output, targets: (output - targets["y"]).square().mean())
        >>> pool = MinibatchWorkerPool(learner)
        >>> minibatch = MinibatchRecord({"x": torch.ones(8, 3)}, {"y": torch.ones(8)}, num_examples=8)
        >>> first, second = pool.run(minibatch), pool.run(minibatch)
        >>> second < first
        True
    """

    def __init__(self, learner: Learner, options: StepOptions | None = None) -> None:
        self.learner = learner
        self.options = StepOptions() if options is None else options
        self.settings = PolicySettings(learner.named_policies, learner.named_optimizers, learner.all_schedulers)
        self._optimizers = list(learner.named_optimizers.values())
        self._schedulers = learner.named_schedulers.get("step", [])
        self._hash_tables = find_hash_tables(learner.model)
        self._device = device_of(learner.model)
        self._model = compile_for_training(learner.model) if self.options.compile else learner.model
        self._open: OpenStep | None = None

    def begin(self, uri: Uri) -> None:
        """Advance the clocks of hash tables, which count URIs with data.

        Args:
            uri: The URI that is about to be trained.
        """
        if uri.num_batches > 0:
            for tables in self._hash_tables:
                tables.advance_clock()

    def run(self, record: MinibatchRecord) -> float:
        """Train on one minibatch, or compute its share of a step of several.

        Args:
            record: The minibatch.

        Returns:
            The loss before the update.

        Raises:
            BadInput: The loss is not a tensor with one number.
        """
        if self.options.step_minibatches > 1:
            return self._run_slice(record)
        arguments = self.settings.begin_step()
        self._zero_grad()
        loss = self._measure(record, arguments)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        self._update(loss)
        return float(loss.item())

    def _run_slice(self, record: MinibatchRecord) -> float:
        if self._open is None:
            self._zero_grad()
            arguments = self.settings.begin_step()
            self._open = OpenStep(arguments, seeds.draw_seed(), GradientTree(self._parameters()))
        step, weight = self._open, max(record.num_examples, 1)
        for optimizer in self._optimizers:
            if isinstance(optimizer, HashOptimizer):
                optimizer.begin_slice(weight)
        with seeds.seeded(seeds.derive(step.seed, "slice", len(step.weights))):
            loss = self._measure(record, step.arguments)
            (loss * weight).backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        step.gradients.add_slice()
        step.weights.append(weight)
        step.losses.append(float(loss.item()))
        if len(step.weights) == self.options.step_minibatches:
            self._close(step)
        return step.losses[-1]

    def _close(self, step: OpenStep) -> None:
        step.gradients.finish(sum(step.weights))
        self._update(step.mean_loss)
        self._open = None

    def _update(self, loss: torch.Tensor | float) -> None:
        if self.options.clip_norm is not None:
            torch.nn.utils.clip_grad_norm_(self._parameters(), self.options.clip_norm)
        for optimizer in self._optimizers:
            optimizer.step()
        for scheduler in self._schedulers:
            advance(scheduler, float(loss.detach()) if isinstance(loss, torch.Tensor) else loss)

    def _parameters(self) -> list[torch.Tensor]:
        """Of all optimizers. That of a hash optimizer is an anchor that never has a gradient."""
        groups = [group for optimizer in self._optimizers for group in optimizer.param_groups]
        return list({id(each): each for group in groups for each in group["params"]}.values())

    def _measure(self, record: MinibatchRecord, arguments: dict[str, Any]) -> torch.Tensor:
        record = to_device(record, self._device)
        output = self._forward(record.inputs)
        loss = self._call_loss(output, record, arguments)
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
            raise BadInput(f"loss must return a tensor with one number, got {_describe(loss)}")
        return loss

    def _forward(self, inputs: Inputs) -> Any:
        if self.options.precision == "fp32":
            return self._model(inputs)
        with torch.autocast(self._device.type, torch.bfloat16):
            output = self._model(inputs)
        return _as_float32(output)

    def _call_loss(self, output: Any, record: MinibatchRecord, arguments: dict[str, Any]) -> Any:
        try:
            return self.learner.loss(output, record.targets, **arguments)
        except SamovarError:
            raise  # it says what is wrong
        except (ValueError, RuntimeError) as error:
            if (difference := _compare_shapes(output, record)) is not None:
                raise BadInput(f"the loss failed ({error}): {difference}") from error
            raise

    def drain(self) -> None:
        """Close the last step, even if it has fewer minibatches than others, and free its gradients."""
        if self._open is not None:
            self._close(self._open)
        self._zero_grad()

    def _zero_grad(self) -> None:
        for optimizer in self._optimizers:
            optimizer.zero_grad()


def _as_float32(output: Any) -> Any:
    """The tensors of an output that autocast made bfloat16, as float32."""
    if isinstance(output, torch.Tensor):
        return output.float() if output.dtype == torch.bfloat16 else output
    if isinstance(output, dict):
        return {name: _as_float32(each) for name, each in output.items()}
    return [_as_float32(each) for each in output] if isinstance(output, list | tuple) else output


class PredictStep:
    """The step that predicts. Run it inside `frozen`.

    Args:
        learner: The model, and its `predict`.
        is_exact: Whether the score of a row must not depend on its neighbours (see `samovar.scoring.tiles`). Evaluation
            during training does without, for speed.
    """

    def __init__(self, learner: Learner, is_exact: bool = False) -> None:
        self.learner = learner
        self._is_exact = is_exact and not learner.mixes_rows
        self._device = device_of(learner.model)
        self.prediction: Any = None
        """Of the last minibatch."""

    def begin(self, uri: Uri) -> None:
        """Predicting does not advance clocks."""

    def run(self, record: MinibatchRecord) -> float | None:
        record = to_device(record, self._device)
        with torch.no_grad():
            if self._is_exact:
                self.prediction = score(self._forward, record.inputs, record.num_examples)
            else:
                self.prediction = self._forward(record.inputs)
        return None

    def _forward(self, inputs: Inputs) -> Any:
        return to_cpu(self.learner.predict(self.learner.model(inputs)))

    def drain(self) -> None:
        self.prediction = None


@contextmanager
def frozen(model: torch.nn.Module, seed: int) -> Iterator[None]:
    """Switch to evaluation mode and to random generators seeded with `seed`; restore both afterwards."""
    trained = [module for module in model.modules() if module.training]
    model.eval()
    try:
        with seeds.seeded(seed):
            yield
    finally:
        for module in trained:
            module.training = True


def _describe(value: object) -> str:
    return f"a tensor of shape {list(value.shape)}" if isinstance(value, torch.Tensor) else type(value).__name__


def _compare_shapes(output: Any, record: MinibatchRecord) -> str | None:
    """How the shape of a model's output differs from that of a target; None if it does not."""
    for name, target in record.targets.items():
        if isinstance(output, torch.Tensor) and isinstance(target, torch.Tensor) and output.shape != target.shape:
            squeezed = ". Return output.squeeze(1)" if output.shape == (*target.shape, 1) else ""
            return (
                f"the model's output has the shape {list(output.shape)}, the target {name!r} has "
                f"{list(target.shape)}{squeezed}"
            )
    return None
