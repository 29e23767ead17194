"""The common model, and the contestant's side of the turns. Knows no loaders and no embeddings.

26 embeddings of 16, side by side with 13 floats ─▶ MLP 256-64-1 ─▶ log-loss of a click
Adagrad for the embeddings, Adam for the rest: torch's fused one for all, as it is the fastest.
"""

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice

import torch
from benchmarks.contest.clicks import CATEGORICAL
from benchmarks.loaders.base import BATCH_SIZE, Batch
from torch import nn

DIM = 16
NUM_FLOATS = 13
WIDTH = len(CATEGORICAL) * DIM
EMBEDDING_LR = 0.05
DENSE_LR = 1e-3
NUM_THREADS = 2
NUM_FOLDED = 1 << 20
"""Rows of a table of fixed size: ids are folded by their lowest bits."""

Step = Callable[[Batch], float]


def make_net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(WIDTH + NUM_FLOATS, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))


def make_dense_optimizer(parameters: Iterable[nn.Parameter]) -> torch.optim.Optimizer:
    return torch.optim.Adam(parameters, lr=DENSE_LR, fused=True)


def loss_of(
    net: Callable[[torch.Tensor], torch.Tensor],
    embedded: torch.Tensor,
    floats: Iterable[torch.Tensor],
    label: torch.Tensor,
) -> torch.Tensor:
    output = net(torch.cat([embedded, torch.stack(list(floats), 1)], 1)).squeeze(1)
    return nn.functional.binary_cross_entropy_with_logits(output, label)


class Peer:
    """A plain torch model with embeddings of any kind. Its dense part may run in bfloat16, or be compiled."""

    def __init__(
        self,
        embed: Callable[[Batch], torch.Tensor],
        optimizers: Iterable[torch.optim.Optimizer],
        *,
        is_bf16: bool = False,
        is_compiled: bool = False,
    ) -> None:
        self._embed = embed
        net = make_net()
        self._optimizers = [*optimizers, make_dense_optimizer(net.parameters())]
        self._net: Callable[[torch.Tensor], torch.Tensor] = torch.compile(net) if is_compiled else net
        self._autocast = torch.autocast("cpu", torch.bfloat16, enabled=is_bf16)

    def step(self, batch: Batch) -> float:
        for optimizer in self._optimizers:
            optimizer.zero_grad()
        num_ids = 2 * len(CATEGORICAL)
        floats, label = batch[num_ids : num_ids + NUM_FLOATS], batch[-1]
        loss = loss_of(self._forward, self._embed(batch[:num_ids]), floats, label)
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in self._optimizers:
            optimizer.step()
        return loss.item()

    def _forward(self, joined: torch.Tensor) -> torch.Tensor:
        with self._autocast:
            output = self._net(joined)
        return output.float()


# Turns: the parent writes a contestant's name; the child trains on the next minibatches and answers


def serve(contestants: Mapping[str, Callable[[], Iterator[float]]], num_batches: Mapping[str, int]) -> None:
    """Each contestant is an iterator of losses, one per minibatch; a turn consumes a fixed number of them."""
    torch.set_num_threads(NUM_THREADS)
    losses = {name: begin() for name, begin in contestants.items()}
    for line in sys.stdin:
        stopwatch = Stopwatch()
        name = line.strip()
        found = list(islice(losses[name], num_batches[name]))
        stopwatch.answer(len(found) * BATCH_SIZE, sum(found) / len(found))


class Stopwatch:
    """Measures one turn from its creation on."""

    def __init__(self) -> None:
        self._start, self._cpu_start = time.perf_counter(), time.process_time()

    def answer(self, num_rows: int, loss: float) -> None:
        seconds, cpu_seconds = time.perf_counter() - self._start, time.process_time() - self._cpu_start
        turn = {"num_rows": num_rows, "seconds": seconds, "cpu_seconds": cpu_seconds, "loss": loss}
        print(json.dumps(turn), file=sys.__stdout__, flush=True)  # a progress bar has replaced sys.stdout
