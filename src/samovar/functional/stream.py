"""The minibatches of an epoch as the loop reads them."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from samovar.functional.batch_iter import BatchIter
from samovar.runner import MinibatchRecord, Stream
from samovar.runner.stream import Records


@dataclass(frozen=True, eq=False)
class BatchStream(Stream):
    batches: BatchIter
    seed: int
    epoch: int

    @property
    def num_batches(self) -> int:
        return self.batches.num_batches

    def open(self, first: int, columns: Sequence[str]) -> Records:
        batches = self.batches.open(self.seed, self.epoch)
        try:
            for number, batch in enumerate(batches):
                if number >= first:
                    yield _record(batch, number)
        finally:
            batches.close()


def _record(batch: Any, number: int) -> MinibatchRecord:
    parts = batch if isinstance(batch, list | tuple) else (batch,)
    count = len(parts[0]) if hasattr(parts[0], "__len__") else 1
    return MinibatchRecord({str(place): part for place, part in enumerate(parts)}, num_examples=count, row=number)
