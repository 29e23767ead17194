"""`BaseEmbeddingModel`: the part of a model that turns inputs into named tensors. The dense part is the user's."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from samovar.embeddings.module import HashEmbedding


class BaseEmbeddingModel(nn.Module):
    """Subclass it, call `embed` in `forward`, and do the rest with plain tensors.

    Examples:
        >>> class Clicks(BaseEmbeddingModel):
        ...     def __init__(self):
        ...         super().__init__({"BannerID": 8, "UserID": 8})
        ...         self.top = nn.Linear(16, 1)
        ...     def forward(self, inputs):
        ...         x = self.embed(inputs)
        ...         return self.top(torch.cat([x["BannerID"], x["UserID"]], 1)).squeeze(1)
    """

    def __init__(self, features: Mapping[str, int], **options: Any) -> None:
        """`options` are those of HashEmbedding: pooling, tables, seed, init_scale."""
        super().__init__()
        self.embedding = HashEmbedding(features, **options)

    def embed(self, inputs: Mapping[str, Any]) -> dict[str, torch.Tensor]:
        """Bags of ids become [B, dim] (deeper bags [B, L, dim]); other tensors go on as they are. All of them arrive
        on the device of the dense part."""
        pooled = self.embedding({name: inputs[name] for name in self.embedding.features})
        real = {name: value for name, value in inputs.items() if isinstance(value, torch.Tensor)}
        device = next((parameter.device for parameter in self.dense_parameters()), torch.device("cpu"))
        if device.type == "cpu":
            return {**pooled, **real}
        return {name: value.to(device, non_blocking=True) for name, value in (pooled | real).items()}

    def hash_embeddings(self) -> list[HashEmbedding]:
        """What the hash optimizers take."""
        return [module for module in self.modules() if isinstance(module, HashEmbedding)]

    def dense_parameters(self) -> Iterator[nn.Parameter]:
        """What torch's optimizers take: hash tables are not among them."""
        return self.parameters()

    def get_required_features_list(self) -> list[str]:
        """The columns that a table must have. Override it if the dense part reads real-valued ones too."""
        return list(self.embedding.features)
