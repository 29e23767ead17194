"""The net of `samovar.nets` for any table without times. learn_columns.py writes the two files that it takes."""

import json
from collections.abc import Mapping
from pathlib import Path

import torch

import samovar
from samovar.nets import (
    AveragedNet,
    TablePreprocessor,
    TabularModel,
    TabularNet,
    TabularOptimizer,
    TabularTask,
    TrainingRules,
)


def build(params: samovar.Params, files: Mapping[str, Path]) -> samovar.Learner:
    preprocessor = TablePreprocessor.load(files["columns"])
    known = json.loads(files["task"].read_text())
    task = TabularTask()
    task.load_state_dict(known["task"])
    net = AveragedNet(TabularNet(preprocessor.inputs, task.num_outputs, params.get("members", 8)))
    rules = TrainingRules(lr=params.get("lr", 0.003))
    optimizer = TabularOptimizer(net, rules, known["steps_per_epoch"])

    def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
        (target,) = targets.values()
        return task(output, task.encode(target))

    def predict(output: torch.Tensor) -> torch.Tensor:
        """Metrics want a column for every class from 0 on. Classes that begin at 1 get one that is never right."""
        prediction = task.postproc(output)
        if task.kind != "multiclass" or task.classes is None:
            return prediction
        return torch.nn.functional.pad(prediction, (int(task.classes[0]), 0))

    return samovar.Learner(TabularModel(preprocessor, net), optimizer, loss, predict)
