"""Gradients of embedding rows between a backward pass and the optimizer's step, and the lookups that autograd sees.
Knows no tables.
"""

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import torch
from torch.autograd.function import once_differentiable

from samovar.native.embedding import Gradient, Lookup

LookUp: TypeAlias = Callable[[], tuple[list[torch.Tensor], Lookup]]
LookUpColumns: TypeAlias = Callable[[], tuple[torch.Tensor, Lookup]]


class PendingGradients:
    """What the backward passes since the last step left, slice by slice."""

    def __init__(self) -> None:
        self._pending: list[tuple[int, Gradient]] = []
        self._slice_weights: list[float] = []
        self._num_lookups = 0

    def pool(self, anchor: torch.Tensor, lens: Sequence[torch.Tensor], look_up: LookUp) -> tuple[torch.Tensor, ...]:
        """The outputs of a training lookup. Its backward pass only notes their gradients here; the step applies them.

        Args:
            anchor: A tensor that needs a gradient; it stands in for the tables.
            lens: The lengths of each feature's bags.
            look_up: Gives one output per feature.
        """
        outputs: tuple[torch.Tensor, ...] = _Pool.apply(anchor, self, lens, look_up)  # type: ignore[no-untyped-call]  # torch's
        return outputs

    def pool_columns(self, anchor: torch.Tensor, lens: Sequence[torch.Tensor], look_up: LookUpColumns) -> torch.Tensor:
        """Like `pool`, with one output for all features."""
        output: torch.Tensor = _PoolColumns.apply(anchor, self, lens, look_up)  # type: ignore[no-untyped-call]  # torch's
        return output

    def begin_slice(self, weight: float) -> None:
        """What follows belongs to the next slice, whose loss is multiplied by `weight`."""
        self._slice_weights.append(weight)

    def take(self, *, is_mean: bool) -> tuple[list[Gradient], float]:
        """The gradients, in the order of the lookups and not of the backward passes, and what to multiply them by.
        Nothing is left.

        Args:
            is_mean: Whether the loss is a mean over examples.
        """
        pending, total_weight = self._pending, sum(self._slice_weights) or 1.0
        self._pending, self._slice_weights = [], []
        pending.sort(key=lambda entry: entry[0])
        gradients = [gradient for _, gradient in pending]
        return gradients, (_count_examples(gradients) if is_mean else 1) / total_weight

    def drop(self) -> None:
        """Forget all."""
        self._pending.clear()
        self._slice_weights.clear()

    def _remember(self, ctx: Any, lens: Sequence[torch.Tensor]) -> None:
        ctx.pending, ctx.number = self, self._num_lookups
        ctx.num_examples = max(map(len, lens), default=1)
        ctx.slice = max(len(self._slice_weights) - 1, 0)
        self._num_lookups += 1
        ctx.set_materialize_grads(False)


class _Pool(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: torch.Tensor, pending: PendingGradients, lens: Sequence[torch.Tensor], look_up: LookUp
    ) -> tuple[torch.Tensor, ...]:
        outputs, ctx.lookup = look_up()
        pending._remember(ctx, lens)
        return tuple(outputs)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: torch.Tensor | None) -> tuple[None, None, None, None]:
        if any(gradient is not None for gradient in gradients):
            _note(ctx, gradients)
        return None, None, None, None


class _PoolColumns(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, anchor: torch.Tensor, pending: PendingGradients, lens: Sequence[torch.Tensor], look_up: LookUpColumns
    ) -> torch.Tensor:
        output, ctx.lookup = look_up()
        pending._remember(ctx, lens)
        return output

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: torch.Tensor | None) -> tuple[None, None, None, None]:
        if gradient is not None:
            _note(ctx, [gradient])
        return None, None, None, None


def _note(ctx: Any, gradients: Sequence[torch.Tensor | None]) -> None:
    ctx.pending._pending.append((ctx.number, Gradient(ctx.lookup, gradients, ctx.num_examples, ctx.slice)))


def _count_examples(gradients: Sequence[Gradient]) -> int:
    """The largest of the lookups of a slice, added up over slices."""
    largest: dict[int, int] = {}
    for gradient in gradients:
        largest[gradient.slice] = max(largest.get(gradient.slice, 0), gradient.num_examples)
    return sum(largest.values())
