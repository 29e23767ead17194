"""An epoch of an MLP on arrays: a hand-written loop against both facades, Lightning and skorch.

The same optimizer and net everywhere, and the same minibatches except where a DataLoader draws them; no validation, no
snapshots. `make bench` installs the peers into build/peers.
"""

import statistics
import sys
from collections.abc import Callable, Generator, Iterator
from functools import partial
from typing import Any

import numpy as np
import torch
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import Seconds, interleave, time_call
from benchmarks.trainer_peers.frameworks import (
    LIGHTNING,
    LIGHTNING_LOADER,
    SKORCH,
    by_lightning,
    by_lightning_loader,
    by_skorch,
)
from benchmarks.trainer_peers.task import BATCH, RATE, Data, make_data, make_net, make_optimizer, order_of
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

from samovar.callbacks import PolicyClock, RateFactor
from samovar.data import ArrayDataset, BatchMaker, Split
from samovar.functional import TorchModel, train_model
from samovar.functional.batch_iter import BatchIter
from samovar.runner import Run
from samovar.seeds import torch_generator
from samovar.trainer import Lookahead, MixedCriterion
from samovar.trainer.inputs import InputScales
from samovar.trainer.options import Options, RunOptions
from samovar.trainer.steps import TrainStep
from samovar.trainer.training import Training
from samovar.training.facade import Epochs, run_epochs

HAND = "hand-written loop over tensors"
MOST = 1.1


def step(net: nn.Module, optimizer: Lookahead, loss: nn.Module, x: torch.Tensor, y: torch.Tensor) -> float:
    optimizer.zero_grad()
    found = loss(net(x), y)
    found.backward()
    optimizer.step()
    return float(found.item())


def by_hand(data: Data) -> Callable[[], object]:
    net, loss = make_net(), nn.CrossEntropyLoss()
    optimizer = make_optimizer(net)

    def epoch() -> None:
        order = order_of(len(data[0]))
        losses = []
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            losses.append(step(net, optimizer, loss, data[0][rows], data[1][rows]))

    return epoch


def by_data_loader(data: Data) -> Callable[[], object]:
    net, loss = make_net(), nn.CrossEntropyLoss()
    optimizer = make_optimizer(net)
    loader = DataLoader(TensorDataset(*data), BATCH, shuffle=True, generator=torch_generator(0, "order"))

    def epoch() -> None:
        for x, y in loader:
            step(net, optimizer, loss, x, y)

    return epoch


class Sliced(BatchIter):
    def __init__(self, data: Data) -> None:
        self._data = data

    @property
    def num_batches(self) -> int:
        return -(-len(self._data[0]) // BATCH)

    def open(self, seed: int, epoch: int) -> Generator[Any, None, None]:
        order = order_of(len(self._data[0]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            yield self._data[0][rows], self._data[1][rows]


def by_train_model(data: Data) -> Callable[[], object]:
    net = make_net()
    model = TorchModel(net, nn.Softmax(-1), nn.CrossEntropyLoss(), make_optimizer(net))
    return lambda: train_model(model, Sliced(data), 1, RATE)


def by_trainer(data: Data) -> Callable[[], object]:
    dataset = ArrayDataset(*data)
    everything = np.arange(len(dataset))
    options = Options(BATCH, 1, 0.9, RATE, 1, 1, 1, True, True, 3, None, False)
    training = Training(
        make_net(), MixedCriterion(dataset), InputScales(), BatchMaker(dataset, 0),
        Split(everything, everything[:0]), options, RunOptions(0, False, 0), torch.device("cpu"), None, lambda *_: {},
    )  # fmt: skip
    pool = TrainStep(training.make_learner(RateFactor()))
    epochs = Epochs(1, training.train_stream)
    return lambda: run_epochs(Run(pool.learner, pool.settings.policies), pool, epochs, [PolicyClock()], None, 0)


OWN = {"Samovar train_model": by_train_model, "Samovar PytorchTrainer": by_trainer}
CONTESTANTS = {HAND: by_hand, **OWN, "hand-written loop over a DataLoader": by_data_loader}
PEERS = {LIGHTNING: by_lightning, LIGHTNING_LOADER: by_lightning_loader, SKORCH: by_skorch}


def promise(name: str, seconds: Seconds) -> Promise:
    costs = [own / hand for own, hand in zip(seconds[name], seconds[HAND], strict=True)]
    remark = (
        f"takes {statistics.median(costs):.3f} of its time ({min(costs):.2f} to {max(costs):.2f}), "
        f"{statistics.median(seconds[name]):.2f} s per epoch"
    )
    return Promise(name, HAND, 1 / MOST, remark)


def run(rows: int, rounds: int) -> Iterator[Report]:
    data = make_data(rows)
    timers: dict[str, Callable[[], float]] = {
        name: partial(time_call, make(data)) for name, make in CONTESTANTS.items()
    }
    timers |= {name: make(data) for name, make in PEERS.items()}
    for timer in timers.values():
        timer()
    seconds = interleave(timers, rounds, "epochs")
    promises = [promise(name, seconds) for name in OWN]
    title = f"an epoch of {rows:,} rows x 784, minibatches of {BATCH}, {rounds} rounds"
    yield Report(title, [Section("train", seconds, rows / 1000, "k rows", HAND, promises)])


def main() -> int:
    options = CommandLine(__doc__, rounds=Size(7, 2), rows=Size(60_000, 1_000)).read()
    return publish(run(options.rows, options.rounds), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
