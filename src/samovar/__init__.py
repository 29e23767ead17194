"""The public names of Samovar, each imported on first use, so that the command line starts without torch."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from samovar import data, errors, functional
    from samovar.config.params import Params
    from samovar.embeddings import BaseEmbeddingModel, HashEmbedding
    from samovar.functional import TorchModel, train_model
    from samovar.policies import EarlyStopping, Policy
    from samovar.runner import Callback, Learner, MinibatchRecord, MinibatchWorkerPool, Runner
    from samovar.seeds import set_seed
    from samovar.tables import Bag, open_table
    from samovar.trainer import MixedCriterion, PytorchTrainer

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
    "MixedCriterion",
    "Params",
    "Policy",
    "PytorchTrainer",
    "Runner",
    "TorchModel",
    "__version__",
    "data",
    "errors",
    "functional",
    "open_table",
    "set_seed",
    "train_model",
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
    "MixedCriterion": "samovar.trainer:MixedCriterion",
    "Params": "samovar.config.params:Params",
    "Policy": "samovar.policies:Policy",
    "PytorchTrainer": "samovar.trainer:PytorchTrainer",
    "Runner": "samovar.runner:Runner",
    "TorchModel": "samovar.functional:TorchModel",
    "data": "samovar.data",
    "errors": "samovar.errors",
    "functional": "samovar.functional",
    "open_table": "samovar.tables:open_table",
    "set_seed": "samovar.seeds:set_seed",
    "train_model": "samovar.functional:train_model",
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
