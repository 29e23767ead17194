"""Minibatches of a data set as the loop reads them: made here, or by other processes. Knows no epochs."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader, Dataset

from samovar.data import BatchMaker
from samovar.data.batches import Batch
from samovar.runner import MinibatchRecord, Stream
from samovar.runner.stream import Records
from samovar.seeds import torch_generator


@dataclass(frozen=True, eq=False)
class DatasetStream(Stream):
    maker: BatchMaker
    order: torch.Tensor
    """The examples, one after the other."""
    batch_size: int
    first_number: int
    """What its first minibatch is in the whole run."""
    n_workers: int
    device: torch.device

    @property
    def num_batches(self) -> int:
        return -(-len(self.order) // self.batch_size)

    def open(self, first: int, columns: Sequence[str]) -> Records:
        # Arrays lie in memory: to send them between processes would only cost.
        is_alone = self.n_workers == 0 or self.maker.is_array
        batches = self._made_here(first) if is_alone else self._made_elsewhere(first)
        for number, batch in enumerate(batches, first):
            yield self._record(batch, number)

    def _made_here(self, first: int) -> Iterator[Batch]:
        for number in range(first, self.num_batches):
            yield self.make(number)

    def make(self, number: int) -> Batch:
        start = number * self.batch_size
        return self.maker.make(self.first_number + number, self.order[start : start + self.batch_size])

    def _made_elsewhere(self, first: int) -> Iterator[Batch]:
        loader: DataLoader[Any] = DataLoader(
            _Numbered(self),
            batch_size=None,
            sampler=range(first, self.num_batches),
            num_workers=self.n_workers,
            collate_fn=_as_it_is,
            generator=torch_generator(self.maker.seed, "workers"),  # else it draws from the model's generator
        )
        yield from loader

    def _record(self, batch: Batch, number: int) -> MinibatchRecord:
        inputs = {str(place): _move(value, self.device) for place, value in enumerate(batch.inputs)}
        targets = {"target": _move(batch.targets, self.device), "weights": _move(batch.weights, self.device)}
        return MinibatchRecord(inputs, targets, num_examples=batch.num_examples, row=number)


class _Numbered(Dataset[Any]):
    """Its items are whole minibatches."""

    def __init__(self, stream: DatasetStream) -> None:
        self._stream = stream

    def __getitem__(self, number: int) -> Batch:
        return self._stream.make(number)


def _as_it_is(batch: Any) -> Any:
    return batch


def _move(value: Any, device: torch.device) -> Any:
    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    if isinstance(value, dict):
        return {name: _move(each, device) for name, each in value.items()}
    return value
