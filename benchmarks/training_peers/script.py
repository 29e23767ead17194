"""Samovar's contestant: an ordinary script for `samovar train`. Its callback takes part in the turns."""

import sys
from collections.abc import Mapping
from typing import Any

import torch
from benchmarks.contest.clicks import CATEGORICAL
from benchmarks.training_peers.base import (
    DIM,
    EMBEDDING_LR,
    NUM_FLOATS,
    Stopwatch,
    make_dense_optimizer,
    make_net,
)
from torch import nn

import samovar
from samovar.embeddings import HashAdagrad
from samovar.errors import Stopped

FLOATS = tuple(f"r{number}" for number in range(NUM_FLOATS))


class Clicks(samovar.BaseEmbeddingModel):
    def __init__(self) -> None:
        super().__init__(dict.fromkeys(CATEGORICAL, DIM))
        self.net = make_net()

    def forward(self, inputs: Mapping[str, Any]) -> torch.Tensor:
        ids = {name: inputs[name] for name in CATEGORICAL}
        output: torch.Tensor = self.net(self.embedding.concat(ids, [inputs[name] for name in FLOATS])).squeeze(1)
        return output

    def get_required_features_list(self) -> list[str]:
        return [*CATEGORICAL, *FLOATS]


class Turnstile(samovar.Callback):
    """Between turns the run waits at the start of an hour. All callbacks of earlier hours are timed."""

    def __init__(self, hours_per_turn: int) -> None:
        self._hours_per_turn = hours_per_turn
        self._stopwatch: Stopwatch | None = None
        self._num_examples = 0
        self._losses: list[float] = []

    def on_uri_begin(self, run: samovar.runner.Run) -> None:
        assert run.uri is not None
        if run.uri.number % self._hours_per_turn:
            return
        if self._stopwatch is not None:
            self._stopwatch.answer(run.num_examples - self._num_examples, sum(self._losses) / len(self._losses))
        if not sys.stdin.readline():
            raise Stopped("nobody asks for another turn")
        self._stopwatch, self._num_examples, self._losses = Stopwatch(), run.num_examples, []

    def on_uri_end(self, run: samovar.runner.Run) -> None:
        self._losses += run.losses


def loss(output: torch.Tensor, targets: Mapping[str, torch.Tensor]) -> torch.Tensor:
    return nn.functional.binary_cross_entropy_with_logits(output, targets["label"])


def build(params: samovar.Params) -> samovar.Learner:
    model = Clicks()
    optimizers = {
        "emb": HashAdagrad(model.hash_embeddings(), lr=EMBEDDING_LR),
        "net": make_dense_optimizer(model.dense_parameters()),
    }
    hours = params.get("hours_per_turn", 0)
    return samovar.Learner(model, optimizers, loss, torch.sigmoid, callbacks=[Turnstile(hours)] if hours else [])
