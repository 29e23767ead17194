"""Nets for tables and for streams, and what they need: rows of any kind as inputs, what is predicted, and how to
train. Knows no loop.

TablePreprocessor   frames, arrays, minibatches ─▶ numbers [rows, N] and category codes [rows, C]
TabularTask         a number, yes or no, or a class: targets, the loss over members, predictions
TabularNet          numbers and codes ─▶ outputs [rows, members, outputs]
AveragedNet         a net and the moving average of its weights, which evaluation uses
TrainingRules       batch size, rates, patience
TabularOptimizer    one step: clipping, warm-up, AdamW, the average
TabularModel        preprocessor and net as the model of a training script

StreamModel         ids and numbers of a stream ─▶ one number per row: a wide and deep net on hash tables
stream_learner      its loss and optimizers: what `build` of a training script returns
"""

from samovar.nets.inputs import TabularInputs
from samovar.nets.learning import AveragedNet, TabularOptimizer, TrainingRules
from samovar.nets.model import TabularModel
from samovar.nets.net import TabularNet
from samovar.nets.preprocessor import TablePreprocessor
from samovar.nets.streams import StreamModel, stream_learner
from samovar.nets.task import TabularTask

__all__ = [
    "AveragedNet",
    "StreamModel",
    "TablePreprocessor",
    "TabularInputs",
    "TabularModel",
    "TabularNet",
    "TabularOptimizer",
    "TabularTask",
    "TrainingRules",
    "stream_learner",
]
