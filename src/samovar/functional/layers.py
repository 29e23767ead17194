"""Layers that torch lacks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from samovar.errors import BadInput


class PyramidPooling(nn.Module):
    """Pools a map of any size into a vector of channels · (1 + 2^d + 4^d + …), with `levels` terms and d spatial
    dimensions: at level i each side is cut into 2^i pieces. One level is global pooling."""

    def __init__(self, pooling: Callable[..., torch.Tensor], levels: int = 1) -> None:
        super().__init__()
        if levels < 1:
            raise BadInput(f"PyramidPooling: levels is {levels}; expected at least 1: change the argument")
        self.pooling = pooling
        self.levels = levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shape = x.shape[2:]
        if not shape or min(shape) < 2 ** (self.levels - 1):
            raise BadInput(
                f"PyramidPooling: found an input of the shape {list(x.shape)}; expected [batch, channels, size, …] "
                f"with sizes of at least {2 ** (self.levels - 1)}: pool less before it, or take fewer levels"
            )
        return torch.cat([self._pool(x, 2**level) for level in range(self.levels)], 1)

    def _pool(self, x: torch.Tensor, pieces: int) -> torch.Tensor:
        sizes: list[Any] = [-(-size // pieces) for size in x.shape[2:]]
        missing = [size * pieces - real for size, real in zip(sizes, x.shape[2:], strict=True)]
        if any(missing):  # repeat the border, so that each piece has the same size
            pads = [each for lack in reversed(missing) for each in (lack // 2, lack - lack // 2)]
            x = nn.functional.pad(x, pads, mode="replicate")
        return self.pooling(x, kernel_size=sizes, stride=sizes).flatten(1)
