"""Real columns side by side, to stand behind embeddings in one matrix. Knows no tables."""

from collections.abc import Sequence

import torch

from samovar.errors import BadInput


def join_columns(real: Sequence[torch.Tensor], shape: tuple[int, ...]) -> torch.Tensor | None:
    """The real columns side by side; None if there are none."""
    if isinstance(real, torch.Tensor):
        raise BadInput(f"concat: real must be a list of tensors, got a tensor of shape {list(real.shape)}")
    for number, values in enumerate(real):
        if not isinstance(values, torch.Tensor):
            raise BadInput(f"concat: real[{number}] must be a tensor, got {type(values).__name__}")
        if values.shape[: len(shape)] != shape or values.dim() > len(shape) + 1:
            raise BadInput(
                f"concat: real[{number}] must have the shape of the bags, {list(shape)}, or one dimension more, got "
                f"{list(values.shape)}"
            )
        if values.requires_grad and torch.is_grad_enabled():
            raise BadInput(
                f"concat: real[{number}] needs a gradient, and concat gives it none. Join it with torch.cat instead"
            )
    if not real:
        return None
    if all(values.dim() == len(shape) for values in real):
        return torch.stack(tuple(real), -1)
    return torch.cat([values if values.dim() > len(shape) else values.unsqueeze(-1) for values in real], -1)
