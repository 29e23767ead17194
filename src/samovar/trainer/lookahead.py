"""Optimizers around optimizers: Lookahead and gradient clipping. Knows no nets."""

import math
from typing import Any

import torch

from samovar.errors import BadInput

FIRST_STEPS = 5
"""The steps that RAdam takes before it knows how much gradients vary."""
FIRST_NORM = 1.0


class Lookahead:
    """Averages the path of another optimizer: k steps forward, one step back (Zhang et al., 2019).

    The inner optimizer moves the weights of the net, the fast weights. After every `num_steps` steps the slow weights
    move a part of the way towards them, and the fast weights restart from there.

    Args:
        optimizer: The inner optimizer.
        num_steps: Steps of the inner optimizer per step of the slow weights.
        part: How far the slow weights move, above 0 and up to 1; with 1, Lookahead changes nothing.

    Raises:
        BadInput: An argument is out of range.

    Example:
        ```python
        import torch
        from samovar.trainer import Lookahead

        net = torch.nn.Linear(3, 1)
        optimizer = Lookahead(torch.optim.RAdam(net.parameters(), lr=1e-3))
        optimizer.zero_grad()
        net(torch.randn(8, 3)).square().mean().backward()
        optimizer.step()
        ```
    """

    def __init__(self, optimizer: torch.optim.Optimizer, num_steps: int = 5, part: float = 0.5) -> None:
        if num_steps < 1:
            raise BadInput(f"num_steps must be at least 1, got {num_steps}")
        if not 0 < part <= 1:
            raise BadInput(f"part must be above 0 and at most 1, got {part}")
        self.optimizer = optimizer
        self._num_steps = num_steps
        self._part = part
        self._count = 0
        self._slow = [each.detach().clone() for each in self._fast()]

    @property
    def num_done(self) -> int:
        """Steps since the start or the last reset."""
        return self._count

    @property
    def param_groups(self) -> list[dict[str, Any]]:
        return self.optimizer.param_groups

    @param_groups.setter
    def param_groups(self, groups: list[dict[str, Any]]) -> None:
        self.optimizer.param_groups = groups

    def _fast(self) -> list[torch.Tensor]:
        return [each for group in self.optimizer.param_groups for each in group["params"]]

    def step(self) -> None:
        self.optimizer.step()
        self._count += 1
        if self._count % self._num_steps == 0:
            with torch.no_grad():
                fast = self._fast()
                torch._foreach_lerp_(self._slow, fast, self._part)
                torch._foreach_copy_(fast, self._slow)

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def reset(self) -> None:
        """Forget all state, as if it were new: the slow weights start at the fast ones."""
        self.optimizer.state.clear()
        self._count = 0
        self._slow = [each.detach().clone() for each in self._fast()]

    def state_dict(self) -> dict[str, Any]:
        return {"optimizer": self.optimizer.state_dict(), "slow": list(self._slow), "count": self._count}

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        self.optimizer.load_state_dict(state["optimizer"])
        self._count = state["count"]
        with torch.no_grad():
            for mine, saved in zip(self._slow, state["slow"], strict=True):
                mine.copy_(saved)


class GradientClipping:
    """Scales gradients down to a norm before each step of a `Lookahead`.

    In the first steps after a start or restart the norm is at most 1, because RAdam then moves by the bare gradient:
    one large input would throw the weights anywhere. Later its steps do not grow with the gradient.
    """

    def __init__(self, optimizer: Lookahead, max_norm: float | None = None) -> None:
        self.optimizer = optimizer
        self._max_norm = math.inf if max_norm is None else max_norm
        self.param_groups = optimizer.param_groups

    def step(self) -> None:
        is_first = self.optimizer.num_done < FIRST_STEPS
        norm = min(self._max_norm, FIRST_NORM) if is_first else self._max_norm
        if norm < math.inf:
            parameters = [each for group in self.optimizer.param_groups for each in group["params"]]
            torch.nn.utils.clip_grad_norm_(parameters, norm)
        self.optimizer.step()

    def zero_grad(self) -> None:
        self.optimizer.zero_grad()

    def reset(self) -> None:
        self.optimizer.reset()

    def state_dict(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_state_dict(self, state: dict[str, Any], /) -> None:
        self.optimizer.load_state_dict(state)
        self.param_groups = self.optimizer.param_groups  # torch makes new groups when it loads
