"""The public names of Samovar, each imported on first use, so that the command line starts without torch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar import errors
    from samovar.config.params import Params
    from samovar.embeddings import BaseEmbeddingModel, HashEmbedding
    from samovar.policies import EarlyStopping, Policy
    from samovar.runner import Callback, Learner, MinibatchRecord, MinibatchWorkerPool, Runner
    from samovar.seeds import set_seed
    from samovar.tables import Bag, open_table

    __version__: str

__all__ = [
    "Bag",
    "BaseEmbeddingModel",
    "Callback",
    "EarlyStopping",
    "HashEmbedding",
    "Learner",
    "MinibatchRecord",
    "MinibatchWorkerPool",
    "Params",
    "Policy",
    "Runner",
    "__version__",
    "errors",
    "open_table",
    "set_seed",
]

_PLACES = {
    "Bag": "samovar.tables:Bag",
    "BaseEmbeddingModel": "samovar.embeddings:BaseEmbeddingModel",
    "Callback": "samovar.runner:Callback",
    "EarlyStopping": "samovar.policies:EarlyStopping",
    "HashEmbedding": "samovar.embeddings:HashEmbedding",
    "Learner": "samovar.runner:Learner",
    "MinibatchRecord": "samovar.runner:MinibatchRecord",
    "MinibatchWorkerPool": "samovar.runner:MinibatchWorkerPool",
    "Params": "samovar.config.params:Params",
    "Policy": "samovar.policies:Policy",
    "Runner": "samovar.runner:Runner",
    "errors": "samovar.errors",
    "open_table": "samovar.tables:open_table",
    "set_seed": "samovar.seeds:set_seed",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("samovar")
    if name not in _PLACES:
        raise AttributeError(f"module 'samovar' has no attribute {name!r}; it has {', '.join(__all__)}")
    module, _, attribute = _PLACES[name].partition(":")
    found = importlib.import_module(module)
    return getattr(found, attribute) if attribute else found


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
