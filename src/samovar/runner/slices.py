"""Steps of several minibatches, which are called slices. Each is computed alone, and a fixed binary tree adds them up.

    ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7))        of 0, 1 and 2: (0 + 1) + 2

Processes that own subtrees can thus give the same bits. Hash tables do the same (native/include/samovar/tree_sum.h).
The loss of a slice is multiplied by its number of examples, and the step divides by their sum.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Gradients = list[torch.Tensor | None]


class GradientTree:
    """Sums the gradients of the parameters over slices.

    Args:
        parameters: Of the dense part.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        self._parameters = parameters
        self._sums: list[tuple[int, Gradients]] = []
        """Whole subtrees from left to right, and the number of their levels."""

    def add_slice(self) -> None:
        """Take the gradients that the backward pass of a slice left in the parameters."""
        leaf: Gradients = [parameter.grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = None
        self._sums.append((0, leaf))
        while len(self._sums) > 1 and self._sums[-1][0] == self._sums[-2][0]:
            self._merge()

    def _merge(self) -> None:
        _, right = self._sums.pop()
        levels, left = self._sums.pop()
        self._sums.append((levels + 1, [_add(*pair) for pair in zip(left, right, strict=True)]))

    def finish(self, divisor: float) -> None:
        """Leave the sum, divided, in the parameters."""
        while len(self._sums) > 1:
            self._merge()
        ((_, gradients),) = self._sums
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = None if gradient is None else gradient.div_(divisor)


def _add(left: torch.Tensor | None, right: torch.Tensor | None) -> torch.Tensor | None:
    if left is None or right is None:
        return right if left is None else left
    return left.add_(right)


@dataclass
class OpenStep:
    """A step that has taken some of its slices."""

    arguments: dict[str, Any]
    """Of the loss: the policies' values in this step."""
    seed: int
    """What a slice draws depends on this and on its position alone."""
    gradients: GradientTree
    weights: list[int] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)

    @property
    def mean_loss(self) -> float:
        weighted = [loss * weight for loss, weight in zip(self.losses, self.weights, strict=True)]
        return sum(weighted) / sum(self.weights)
