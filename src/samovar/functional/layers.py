"""Layers that torch lacks."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from samovar.errors import BadInput


class PyramidPooling(nn.Module):
    """Pools a feature map of any size into a vector of a fixed size.

    At level i, each side is cut into 2^i pieces and each piece is pooled. With d spatial dimensions the vector has
    channels · (1 + 2^d + 4^d + …) elements, one term per level. One level is global pooling.

    Args:
        pooling: A pooling function of torch, for example `torch.nn.functional.max_pool2d`.
        levels: The number of levels.

    Raises:
        BadInput: `levels` is below 1, or later an input is too small for that many levels.

    Example:
        >>> pool = PyramidPooling(nn.functional.max_pool2d, levels=2)
        >>> pool(torch.zeros(4, 3, 17, 9)).shape
        torch.Size([4, 15])
    """

    def __init__(self, pooling: Callable[..., torch.Tensor], levels: int = 1) -> None:
        super().__init__()
        if levels < 1:
            raise BadInput(f"levels must be at least 1, got {levels}")
        self.pooling = pooling
        self.levels = levels

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        least = 2 ** (self.levels - 1)
        if x.dim() < 3 or min(x.shape[2:]) < least:
            raise BadInput(
                f"PyramidPooling: with {self.levels} levels the input must be [batch, channels, size, …] with sizes of "
                f"at least {least}, got {list(x.shape)}"
            )
        return torch.cat([self._pool(x, 2**level) for level in range(self.levels)], 1)

    def _pool(self, x: torch.Tensor, num_pieces: int) -> torch.Tensor:
        sizes: list[Any] = [-(-size // num_pieces) for size in x.shape[2:]]
        missing = [size * num_pieces - real for size, real in zip(sizes, x.shape[2:], strict=True)]
        if any(missing):  # repeat the border, so that all pieces have the same size
            pads = [each for lack in reversed(missing) for each in (lack // 2, lack - lack // 2)]
            x = nn.functional.pad(x, pads, mode="replicate")
        return self.pooling(x, kernel_size=sizes, stride=sizes).flatten(1)
