"""The public names of Samovar, each imported on first use, so that the command line starts without torch."""

import importlib
from typing import TYPE_CHECKING, Any

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar import (
        brewing,
        callbacks,
        data,
        embeddings,
        errors,
        functional,
        losses,
        nets,
        policies,
        provenance,
        queue,
        results,
        runs,
        scoring,
        stages,
        sweep,
        tables,
        training,
    )
    from samovar.brewing.brew import brew
    from samovar.config.params import Params
    from samovar.embeddings import BaseEmbeddingModel, HashEmbedding
    from samovar.functional import TorchModel, train_model
    from samovar.policies import EarlyStopping, Policy
    from samovar.runner import Callback, Learner, MinibatchRecord, MinibatchWorkerPool, Runner
    from samovar.seeds import set_seed
    from samovar.tables import Bag, open_table
    from samovar.trainer import MixedCriterion, PytorchTrainer
    from samovar.training import export, load, predict, train

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
    "brew",
    "brewing",
    "callbacks",
    "data",
    "embeddings",
    "errors",
    "export",
    "functional",
    "load",
    "losses",
    "nets",
    "open_table",
    "policies",
    "predict",
    "provenance",
    "queue",
    "results",
    "runs",
    "scoring",
    "set_seed",
    "stages",
    "sweep",
    "tables",
    "train",
    "train_model",
    "training",
]

_PLACES = {
    "Bag": "tables:Bag",
    "BaseEmbeddingModel": "embeddings:BaseEmbeddingModel",
    "Callback": "runner:Callback",
    "EarlyStopping": "policies:EarlyStopping",
    "HashEmbedding": "embeddings:HashEmbedding",
    "Learner": "runner:Learner",
    "MinibatchRecord": "runner:MinibatchRecord",
    "MinibatchWorkerPool": "runner:MinibatchWorkerPool",
    "MixedCriterion": "trainer:MixedCriterion",
    "Params": "config.params:Params",
    "Policy": "policies:Policy",
    "PytorchTrainer": "trainer:PytorchTrainer",
    "Runner": "runner:Runner",
    "TorchModel": "functional:TorchModel",
    "brew": "brewing.brew:brew",
    "brewing": "brewing",
    "callbacks": "callbacks",
    "data": "data",
    "embeddings": "embeddings",
    "errors": "errors",
    "export": "training:export",
    "functional": "functional",
    "load": "training:load",
    "losses": "losses",
    "nets": "nets",
    "open_table": "tables:open_table",
    "policies": "policies",
    "predict": "training:predict",
    "provenance": "provenance",
    "queue": "queue",
    "results": "results",
    "runs": "runs",
    "scoring": "scoring",
    "set_seed": "seeds:set_seed",
    "stages": "stages",
    "sweep": "sweep",
    "tables": "tables",
    "train": "training:train",
    "train_model": "functional:train_model",
    "training": "training",
}
_find = lazy_names(__name__, _PLACES)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("samovar")
    return _find(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
