"""Hash tables as PyTorch modules: an id of 64 bits to a row that learns and may expire. Knows nothing of runs."""

from samovar.embeddings.module import BaseEmbeddingModel, Counters, HashEmbedding
from samovar.embeddings.optimizers import HashAdagrad, HashAdam, HashOptimizer, HashRowwiseAdagrad, HashSGD
from samovar.embeddings.state import final_state

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
