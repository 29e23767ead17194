"""Lightning and skorch as contestants of benchmarks/trainer.py: the same net, optimizer and minibatches. A contestant
returns the seconds of an epoch without its trainer's one-time setup."""

import importlib
import logging
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from benchmarks.trainer_peers.task import BATCH, RATE, Data, make_net, make_optimizer, order_of
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

LIGHTNING = "Lightning over slices"
LIGHTNING_LOADER = "Lightning over a DataLoader"
SKORCH = "skorch"


class Slices(IterableDataset[Any]):
    """Whole minibatches, as the hand-written loop takes them."""

    def __init__(self, data: Data) -> None:
        self._data = data

    def __len__(self) -> int:
        return -(-len(self._data[0]) // BATCH)

    def __iter__(self) -> Iterator[Data]:
        order = order_of(len(self._data[0]))
        for start in range(0, len(order), BATCH):
            rows = order[start : start + BATCH]
            yield self._data[0][rows], self._data[1][rows]


class Adapted(torch.optim.Optimizer):
    """Our optimizer in the form that peers expect: a torch optimizer class whose step takes a closure."""

    def __init__(self, params: Any, lr: float = RATE) -> None:
        super().__init__(params, {"lr": lr})
        self._inner = make_optimizer(nn.ParameterList(self.param_groups[0]["params"]))

    def step(self, closure: Any = None) -> Any:
        loss = None if closure is None else closure()
        self._inner.step()
        return loss


def by_lightning(data: Data) -> Callable[[], float]:
    return _lightning(DataLoader(Slices(data), batch_size=None))


def by_lightning_loader(data: Data) -> Callable[[], float]:
    return _lightning(DataLoader(TensorDataset(*data), BATCH, shuffle=True))


def _lightning(loader: DataLoader[Any]) -> Callable[[], float]:
    lightning: Any = importlib.import_module("pytorch_lightning")
    warnings.filterwarnings("ignore", module="pytorch_lightning")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)

    class Module(lightning.LightningModule):  # type: ignore[misc]  # the peers have no types here
        def __init__(self) -> None:
            super().__init__()
            self.net = make_net()
            self.loss = nn.CrossEntropyLoss()

        def training_step(self, batch: Data, number: int) -> torch.Tensor:
            loss: torch.Tensor = self.loss(self.net(batch[0]), batch[1])
            return loss

        def configure_optimizers(self) -> Any:
            return Adapted(self.net.parameters())

    class Stopwatch(lightning.Callback):  # type: ignore[misc]  # the same
        seconds = 0.0

        def on_train_epoch_start(self, *_: object) -> None:
            self._start = time.perf_counter()

        def on_train_epoch_end(self, *_: object) -> None:
            self.seconds = time.perf_counter() - self._start

    module, watch = Module(), Stopwatch()
    off = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")

    def epoch() -> float:
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", callbacks=[watch], **dict.fromkeys(off, False))
        trainer.fit(module, loader)
        return watch.seconds

    return epoch


def by_skorch(data: Data) -> Callable[[], float]:
    skorch: Any = importlib.import_module("skorch")
    net = skorch.NeuralNetClassifier(
        make_net(), criterion=nn.CrossEntropyLoss, optimizer=Adapted, batch_size=BATCH, max_epochs=1,
        train_split=None, iterator_train__shuffle=True, verbose=0, callbacks__print_log=None,
    )  # fmt: skip
    x, y = data[0].numpy(), data[1].numpy()
    net.initialize()

    def epoch() -> float:
        start = time.perf_counter()
        net.partial_fit(x, y)
        return time.perf_counter() - start

    return epoch
