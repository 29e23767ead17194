"""A model with its own train step: architecture, activation, criterion, optimizer. Knows no data and no loop."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from samovar.errors import BadInput
from samovar.runner.device import choose_device


class TorchModel:
    """An architecture, an activation, a criterion and an optimizer, with a train step that you can override.

    `train_model` calls `do_train_step` with each minibatch and the current value of every policy. Override it when one
    forward and one backward pass is not what you need, or to take more policies than `lr`.

    `do_inf_step` predicts. To save and load the weights, use `model.architecture.state_dict()`; `train_model` keeps
    everything in its checkpoints by itself.

    Args:
        architecture: The net. It gets all parts of a minibatch except the last, which is the target.
        activation: Turns the output of the net into a prediction, for example `nn.Softmax(-1)`.
        criterion: The loss, called as `criterion(output, target)`.
        optimizer: A class such as `torch.optim.Adam`, which is called with the parameters, or an optimizer object.
        device: Where to move the model: `"auto"` is CUDA if there is one. By default it stays where it is.

    Attributes:
        architecture: The net.
        activation: As given.
        criterion: As given.
        optimizer: The optimizer object.

    Raises:
        BadInput: `architecture` is not a `torch.nn.Module`, or there is no such device.

    Example:
        A model, and one whose step takes another policy:

        ```python
        import torch
        from torch import nn

        import samovar
        from samovar.policies import Exponential

        model = samovar.TorchModel(nn.Linear(3, 2), nn.Softmax(-1), nn.CrossEntropyLoss(), torch.optim.Adam)
        x, y = torch.randn(64, 3), torch.randint(0, 2, (64,))
        samovar.train_model(model, [(x, y)], n_epochs=5, lr=0.01)
        probabilities = model.do_inf_step(x)


        class Noisy(samovar.TorchModel):
            def do_train_step(self, *inputs, lr, noise):
                x, y = inputs
                return super().do_train_step(x + noise * torch.randn_like(x), y, lr=lr)


        noisy = Noisy(nn.Linear(3, 2), nn.Softmax(-1), nn.CrossEntropyLoss())
        samovar.train_model(noisy, [(x, y)], n_epochs=5, lr=0.01, noise=Exponential(0.1, 0.5))
        ```
    """

    def __init__(
        self,
        architecture: nn.Module,
        activation: Callable[[Any], Any],
        criterion: Callable[..., torch.Tensor],
        optimizer: Any = torch.optim.SGD,
        device: str | torch.device | None = None,
    ) -> None:
        if not isinstance(architecture, nn.Module):
            raise BadInput(f"architecture must be a torch.nn.Module, got {type(architecture).__name__}")
        if device is not None:
            architecture.to(choose_device(device))
        self.architecture = architecture
        self.activation = activation
        self.criterion = criterion
        self.optimizer = optimizer if hasattr(optimizer, "param_groups") else optimizer(architecture.parameters())
        for part in (activation, criterion):
            if isinstance(part, nn.Module):
                part.to(self.device)

    @property
    def device(self) -> torch.device:
        """Where the parameters of the architecture are."""
        return next((each.device for each in self.architecture.parameters()), torch.device("cpu"))

    def do_train_step(self, *inputs: Any, lr: float) -> float:
        """Train on one minibatch.

        Args:
            *inputs: The parts of the minibatch, as arrays or tensors; the last is the target.
            lr: The learning rate, written into the optimizer.

        Returns:
            The loss.

        Raises:
            BadInput: The minibatch has no target.

        Example:
            ```python
            import torch
            from torch import nn

            import samovar

            model = samovar.TorchModel(nn.Linear(3, 1), nn.Identity(), nn.MSELoss())
            x = torch.randn(64, 3)
            print(model.do_train_step(x, x.sum(1, keepdim=True), lr=0.1))
            ```
        """
        if len(inputs) < 2:
            raise BadInput(f"a minibatch must have at least one input and a target, got {len(inputs)} parts")
        if not self.architecture.training:  # modules that the user froze stay frozen
            self.architecture.train()
        device = self.device
        *tensors, target = (as_input(each, device) for each in inputs)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.zero_grad()
        loss = self.criterion(self.architecture(*tensors), target)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        self.optimizer.step()
        return float(loss.item())

    def do_inf_step(self, *inputs: Any) -> Any:
        """Predict, in evaluation mode and without gradients.

        Args:
            *inputs: The inputs of the net, as arrays or tensors, without a target.

        Returns:
            The activated output as a numpy array, or as a dict, list or tuple of them.

        Example:
            ```python
            import numpy as np
            from torch import nn

            import samovar

            model = samovar.TorchModel(nn.Linear(3, 2), nn.Softmax(-1), nn.CrossEntropyLoss())
            print(model.do_inf_step(np.zeros((5, 3))).shape)
            ```
        """
        modes = [(module, module.training) for module in self.architecture.modules()]
        self.architecture.eval()
        try:
            with torch.no_grad():
                tensors = [as_input(each, self.device) for each in inputs]
                return to_numpy(self.activation(self.architecture(*tensors)))
        finally:
            for module, mode in modes:
                module.training = mode


def as_input(value: Any, device: torch.device) -> Any:
    """Arrays become tensors on the device, with floats as float32."""
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
