"""`train_model` and what it takes: a model with its own step, batch iterators, layers. A facade over the one loop;
knows no tables, recipes or command line."""

from samovar.functional import batch_iter, layers
from samovar.functional.torch_model import TorchModel
from samovar.functional.training import train_model

__all__ = ["TorchModel", "batch_iter", "layers", "train_model"]
