"""Hash tables as PyTorch modules: a 64-bit id to an embedding row that learns and may expire. Knows no runs.

Names are imported on use: looking at stored tables needs no torch.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.embeddings.model import BaseEmbeddingModel
    from samovar.embeddings.module import Counters, HashEmbedding
    from samovar.embeddings.optimizers import HashAdagrad, HashAdam, HashOptimizer, HashRowwiseAdagrad, HashSGD
    from samovar.embeddings.state import final_state
    from samovar.embeddings.stored import StoredTable, stored_table, stored_tables

__all__ = [
    "BaseEmbeddingModel",
    "Counters",
    "HashAdagrad",
    "HashAdam",
    "HashEmbedding",
    "HashOptimizer",
    "HashRowwiseAdagrad",
    "HashSGD",
    "StoredTable",
    "final_state",
    "stored_table",
    "stored_tables",
]

__getattr__ = lazy_names(
    __name__,
    {
        "BaseEmbeddingModel": "model:BaseEmbeddingModel",
        "Counters": "module:Counters",
        "HashAdagrad": "optimizers:HashAdagrad",
        "HashAdam": "optimizers:HashAdam",
        "HashEmbedding": "module:HashEmbedding",
        "HashOptimizer": "optimizers:HashOptimizer",
        "HashRowwiseAdagrad": "optimizers:HashRowwiseAdagrad",
        "HashSGD": "optimizers:HashSGD",
        "StoredTable": "stored:StoredTable",
        "final_state": "state:final_state",
        "stored_table": "stored:stored_table",
        "stored_tables": "stored:stored_tables",
    },
)
