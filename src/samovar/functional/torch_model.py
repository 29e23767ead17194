"""A model with its own train step: architecture, activation, loss, optimizer. Knows no data and no loop."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from samovar.errors import BadInput


class TorchModel:
    """`do_train_step(*inputs, lr)` learns from one minibatch, whose last part is the target; `do_inf_step(*inputs)`
    predicts. Override them to use further policies."""

    def __init__(
        self,
        architecture: nn.Module,
        activation: Callable[[Any], Any],
        criterion: Callable[..., torch.Tensor],
        optimizer: Any = torch.optim.SGD,
        device: str | torch.device | None = None,
    ) -> None:
        if not isinstance(architecture, nn.Module):
            raise BadInput(
                f"TorchModel: found an architecture of type {type(architecture).__name__}; expected a torch.nn.Module: "
                "give one"
            )
        if device is not None:
            architecture.to(device)
        self.architecture = architecture
        self.activation = activation
        self.criterion = criterion
        self.optimizer = optimizer if hasattr(optimizer, "param_groups") else optimizer(architecture.parameters())
        for part in (activation, criterion):
            if isinstance(part, nn.Module):
                part.to(self.device)

    @property
    def device(self) -> torch.device:
        return next((each.device for each in self.architecture.parameters()), torch.device("cpu"))

    def do_train_step(self, *inputs: Any, lr: float) -> float:
        """One step; gives the loss."""
        if len(inputs) < 2:
            raise BadInput(
                f"TorchModel: found a minibatch of {len(inputs)} parts; expected inputs and a target: load both"
            )
        if not self.architecture.training:  # what the user froze inside it stays so
            self.architecture.train()
        device = self.device
        *given, target = (as_input(each, device) for each in inputs)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss = self.criterion(self.architecture(*given), target)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.optimizer.step()
        return float(loss.item())

    def do_inf_step(self, *inputs: Any) -> Any:
        """The activated output, as numpy."""
        modes = [(module, module.training) for module in self.architecture.modules()]
        self.architecture.eval()
        try:
            with torch.no_grad():
                given = [as_input(each, self.device) for each in inputs]
                return to_numpy(self.activation(self.architecture(*given)))
        finally:
            for module, mode in modes:
                module.training = mode


def as_input(value: Any, device: torch.device) -> Any:
    """Arrays as tensors on the device; floats as float32."""
    if isinstance(value, list | tuple):
        return type(value)(as_input(each, device) for each in value)
    if not isinstance(value, torch.Tensor):
        value = torch.from_numpy(np.ascontiguousarray(value))
    return value.to(device, torch.float32) if value.dtype == torch.float64 else value.to(device)


def to_numpy(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().cpu().numpy()
    if isinstance(value, Mapping):
        return {name: to_numpy(each) for name, each in value.items()}
    return type(value)(to_numpy(each) for each in value) if isinstance(value, list | tuple) else value
