"""The base class of models that look up hash tables first. Knows no optimizers."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from samovar.embeddings.module import HashEmbedding


class BaseEmbeddingModel(nn.Module):
    """The base class of models with hash embeddings. Subclass it, call `embed` in `forward`, and go on with plain
    tensors.

    Args:
        features: Feature names and their dimensions.
        **options: Further arguments of `HashEmbedding`: pooling, tables, seed, init_scale.

    Example:
        >>> class Clicks(BaseEmbeddingModel):
        ...     def __init__(self):
        ...         super().__init__({"banner": 8, "user": 8})
        ...         self.top = nn.Linear(16, 1)
        ...     def forward(self, inputs):
        ...         x = self.embed(inputs)
        ...         return self.top(torch.cat([x["banner"], x["user"]], 1)).squeeze(1)
        >>> model = Clicks()
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
        >>> model({"banner": bag, "user": bag}).shape
        torch.Size([3])
        >>> model.get_required_features_list()
        ['banner', 'user']
    """

    def __init__(self, features: Mapping[str, int], **options: Any) -> None:
        super().__init__()
        self.embedding = HashEmbedding(features, **options)

    def embed(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Turn inputs into named tensors on the device of the dense part.

        Args:
            inputs: Bags for all features; further tensors are passed through.

        Returns:
            [B, dim] for each bag ([B, L, dim] for a deeper one), and the other tensors unchanged.
        """
        pooled = self.embedding({name: inputs[name] for name in self.embedding.features})
        real = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        device = next((parameter.device for parameter in self.dense_parameters()), torch.device("cpu"))
        if device.type == "cpu":
            return {**pooled, **real}
        return {name: value.to(device, non_blocking=True) for name, value in (pooled | real).items()}

    def hash_embeddings(self) -> list[HashEmbedding]:
        """The hash tables of the model, for a hash optimizer."""
        return [module for module in self.modules() if isinstance(module, HashEmbedding)]

    def dense_parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the dense part, for torch's optimizers. Hash tables are not among them."""
        return self.parameters()

    def get_required_features_list(self) -> list[str]:
        """The columns that a table must have. Override it if the dense part also uses real-valued columns."""
        return list(self.embedding.features)
