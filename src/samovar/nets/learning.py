"""How a `TabularNet` is trained: the rules, the moving average of its weights, and one step of its optimizer. Knows no
data and no loop."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from samovar.errors import BadInput
from samovar.nets.net import TabularNet

_STEPS_PER_FLUSH = 128  # in which AdamW's first moments shrink to a millionth
_TINY = 1e-30  # far below what changes a weight, and far above the least normal number


@dataclass(frozen=True)
class TrainingRules:
    """The rules that train a `TabularNet` well on most tables. `for_rows` chooses those that depend on the data's size.

    Train in epochs; after each, measure the loss of the average on rows held out, and keep the best. End after
    `patience` epochs without a new best.

    Example:
        >>> TrainingRules.for_rows(20_000).batch_size
        256
    """

    batch_size: int = 256
    """Rows per minibatch."""
    lr: float = 3e-3
    """The rate after the warm-up; it stays constant."""
    embedding_factor: float = 6.0
    """How many times that rate embeddings have."""
    weight_decay: float = 0.03
    """Of shared matrices and heads; nothing else decays."""
    clip_norm: float = 1.0
    """Gradients are scaled down to this norm."""
    warmup_epochs: float = 0.5
    """How long the rate rises from 0, in epochs."""
    average_decay: float = 0.998
    """The most weight that the moving average gives to its past, per step."""
    patience: int = 10
    """Epochs without a new best after which to end."""
    max_epochs: int = 200
    """The most epochs."""

    @classmethod
    def for_rows(cls, num_rows: int) -> "TrainingRules":
        """Choose the rules for a training part of some size.

        Args:
            num_rows: How many rows it has.

        Returns:
            The rules.
        """
        return cls(batch_size=choose_batch_size(num_rows))


def choose_batch_size(num_rows: int) -> int:
    """256 rows; fewer if an epoch would have fewer than 16 steps, more on large tables. Smaller minibatches take longer
    and overfit sooner."""
    if num_rows >= 100_000:
        return 512 if num_rows < 400_000 else 1024
    return max(32, min(256, 1 << (max(num_rows // 16, 1).bit_length() - 1)))


class AveragedNet(nn.Module):
    """A net together with the moving average of its weights. In training it computes with the net, in evaluation with
    the average.

    Its `state_dict` holds both, as `net.…` and `average.…`, and the number of updates, so a resumed training is exact.

    Args:
        net: Any net. Buffers are taken over from it as they are when the average is made.
        max_decay: The most weight that the average gives to its past, per update; in update g it is
            min(max_decay, (1 + g) / (10 + g)).

    Attributes:
        net: The net.
        average: A copy of it with the average weights.

    Example:
        >>> import torch
        >>> model = AveragedNet(torch.nn.Linear(3, 1))
        >>> with torch.no_grad():
        ...     _ = model.net.bias.fill_(1.0)
        >>> model.update()
        >>> x = torch.zeros(1, 3)
        >>> bool((model.train()(x) == model.eval()(x)).all())
        False
    """

    num_updates: torch.Tensor

    def __init__(self, net: nn.Module, max_decay: float = 0.998) -> None:
        super().__init__()
        if not 0 <= max_decay < 1:
            raise BadInput(f"max_decay must be at least 0 and below 1, got {max_decay}")
        self.net = net
        self.average = copy.deepcopy(net).requires_grad_(False)
        self.max_decay = max_decay
        self.register_buffer("num_updates", torch.zeros((), dtype=torch.int64))

    def forward(self, *inputs: Any) -> Any:
        """Call the net, or in evaluation the average."""
        return self.net(*inputs) if self.training else self.average(*inputs)

    @torch.no_grad()
    def update(self) -> None:
        """Move the average towards the net. `TabularOptimizer` does it after each step."""
        count = int(self.num_updates)
        decay = min(self.max_decay, (1 + count) / (10 + count))
        torch._foreach_lerp_(list(self.average.parameters()), list(self.net.parameters()), 1 - decay)
        self.num_updates += 1


class TabularOptimizer:
    """AdamW by the rules: embeddings have a higher rate, only matrices decay, gradients are clipped, the rate rises at
    first, and the average follows each step.

    The rates in `param_groups` are those after the warm-up; whoever changes them, such as a policy `lr_factor`, scales
    the warm-up too. Its state holds the step count, so a resumed training is exact.

    Args:
        model: The net that is trained, with its average.
        rules: The rules.
        steps_per_epoch: How many minibatches an epoch has, for the length of the warm-up.

    Raises:
        BadInput: `steps_per_epoch` is below 1.

    Example:
        >>> import numpy as np
        >>> import torch
        >>> model = AveragedNet(TabularNet(TabularInputs([np.array([-1.0, 1.0])] * 2), num_outputs=1))
        >>> optimizer = TabularOptimizer(model, TrainingRules(), steps_per_epoch=100)
        >>> optimizer.zero_grad()
        >>> model(torch.randn(64, 2)).square().mean().backward()
        >>> optimizer.step()
    """

    def __init__(self, model: AveragedNet, rules: TrainingRules, steps_per_epoch: int) -> None:
        if steps_per_epoch < 1:
            raise BadInput(f"steps_per_epoch must be at least 1, got {steps_per_epoch}")
        if not isinstance(model.net, TabularNet):
            raise BadInput(f"model must average a TabularNet, got {type(model.net).__name__}")
        self.model = model
        self._clip_norm = rules.clip_norm
        self._warmup_steps = max(1, round(rules.warmup_epochs * steps_per_epoch))
        self._count = 0
        groups = model.net.parameter_groups()
        self.optimizer = torch.optim.AdamW(
            [
                {"params": groups["embeddings"], "lr": rules.lr * rules.embedding_factor, "weight_decay": 0.0},
                {"params": groups["matrices"], "lr": rules.lr, "weight_decay": rules.weight_decay},
                {"params": groups["others"], "lr": rules.lr, "weight_decay": 0.0},
            ],
            fused=True,
        )

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        """Embeddings, matrices and others."""
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    def zero_grad(self) -> None:
        """Forget the gradients."""
        self.optimizer.zero_grad()

    def step(self) -> None:
        """Clip the gradients, update the net, and move the average."""
        nn.utils.clip_grad_norm_(self.model.net.parameters(), self._clip_norm)
        rates = [group["lr"] for group in self.param_groups]
        self._count += 1
        warmth = min(1.0, self._count / self._warmup_steps)
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate * warmth
        self.optimizer.step()
        for group, rate in zip(self.param_groups, rates, strict=True):
            group["lr"] = rate
        if self._count % _STEPS_PER_FLUSH == 0:
            self._flush()
        self.model.update()

    def _flush(self) -> None:
        """Set moments to zero that would soon be denormal numbers, with which some processors are ten times slower.
        Those of a rare category shrink with each step. torch's own switch works per thread: another number of threads
        would give other bits."""
        for state in self.optimizer.state.values():
            for name in ("exp_avg", "exp_avg_sq"):
                state[name].masked_fill_(state[name].abs() < _TINY, 0.0)

    def reset(self) -> None:
        """Forget the moments and the step count: the rate rises again. The average stays."""
        self.optimizer.state.clear()
        self._count = 0

    def state_dict(self) -> dict[str, Any]:
        """The moments and the step count. The average is part of the model's state."""
        return {"optimizer": self.optimizer.state_dict(), "count": self._count}

    def load_state_dict(self, state: Mapping[str, Any], /) -> None:
        """Continue from a state.

        Args:
            state: What `state_dict` returned.
        """
        self.optimizer.load_state_dict(state["optimizer"])
        self._count = state["count"]
