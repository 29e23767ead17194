"""`TabularModel`: a preprocessor and a net as the model of a training script. Knows no config and no tables."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from samovar.nets.preprocessor import TablePreprocessor


class TabularModel(nn.Module):
    """A model for `samovar.Learner`: it takes the real-valued columns and the ids of a minibatch, and returns the
    outputs of a net.

    What the preprocessor learned is part of the model's state, so a model that is loaded needs no file but its own.

    Args:
        preprocessor: Learned from rows with the columns of the table.
        net: A `TabularNet` for its inputs, or an `AveragedNet` of one.

    Example:
        >>> import torch
        >>> rows = {"price": torch.arange(100) / 100.0, "shop": [1, 2] * 50}
        >>> preprocessor = TablePreprocessor().fit(rows)
        >>> model = TabularModel(preprocessor, TabularNet(preprocessor.inputs, num_outputs=1))
        >>> model.get_required_features_list()
        ['price', 'shop']
        >>> model({"price": torch.tensor([0.5, 0.7]), "shop": torch.tensor([1, 2])}).shape
        torch.Size([2, 8, 1])
    """

    def __init__(self, preprocessor: TablePreprocessor, net: nn.Module) -> None:
        super().__init__()
        self.preprocessor = preprocessor
        self.net = net

    def get_required_features_list(self) -> list[str]:
        """The columns of the table that the model needs."""
        return self.preprocessor.columns

    def forward(self, inputs: Mapping[str, Any]) -> Any:
        """Return the outputs of the net for a minibatch."""
        numbers, categories = self.preprocessor.transform(inputs)
        device = next(self.net.parameters()).device
        return self.net(torch.from_numpy(numbers).to(device), torch.from_numpy(categories).to(device))

    def get_extra_state(self) -> dict[str, Any]:
        """What the preprocessor learned."""
        return self.preprocessor.state_dict()

    def set_extra_state(self, state: Mapping[str, Any]) -> None:
        """Replace what the preprocessor learned."""
        self.preprocessor.load_state_dict(state)
