"""Hash tables as PyTorch modules: a 64-bit id to an embedding row that learns and may expire. Knows no runs.

Names are imported on use: looking at stored tables needs no torch.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar.embeddings.module import BaseEmbeddingModel, Counters, HashEmbedding
    from samovar.embeddings.optimizers import HashAdagrad, HashAdam, HashOptimizer, HashRowwiseAdagrad, HashSGD
    from samovar.embeddings.state import final_state

_MODULES = {
    "BaseEmbeddingModel": "module",
    "Counters": "module",
    "HashAdagrad": "optimizers",
    "HashAdam": "optimizers",
    "HashEmbedding": "module",
    "HashOptimizer": "optimizers",
    "HashRowwiseAdagrad": "optimizers",
    "HashSGD": "optimizers",
    "final_state": "state",
}

__all__ = [
    "BaseEmbeddingModel",
    "Counters",
    "HashAdagrad",
    "HashAdam",
    "HashEmbedding",
    "HashOptimizer",
    "HashRowwiseAdagrad",
    "HashSGD",
    "final_state",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'samovar.embeddings' has no attribute {name!r}. Available: {', '.join(__all__)}")
    return getattr(importlib.import_module(f"samovar.embeddings.{_MODULES[name]}"), name)
