"""Minibatches of positive rows, each row followed by sampled negatives, for logs that hold only what happened.

    table       user 7, item 3 · user 8, item 5
    minibatch   user 7, item 3 · user 7, item 9 · user 7, item 1 · user 8, item 5 · user 8, item 3 · user 8, item 2
    target      1                0                0                1                0                0
    group_start 1                0                0                1                0                0

A negative has the candidate columns of an id of the table, and everything else of its positive row. What is drawn
depends on (seed, epoch, minibatch) and on the hours up to its own, never on later ones. In memory are the distinct ids
of each hour of the window, one row each.
"""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.runner.stream import InputValues, Minibatches, Stream, TargetValues
from samovar.seeds import numpy_generator
from samovar.tables import Bag, ReadOptions, Table
from samovar.tables.record import MinibatchRecord, RecordValue
from samovar.tables.schema import GROUP_START
from samovar.tables.selection import gather_rows

SAMPLING_PROBABILITY = "sampling_probability"
_MIN_ROWS_TO_MERGE = 1 << 16

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Negatives:
    """How negatives are drawn."""

    columns: Sequence[str]
    """The columns that make a candidate; the first has its id."""
    count: int
    """Per positive row."""
    target: str
    """The target that is 0 for negatives. If the table has no such column, it is 1 for the others."""
    by_frequency: bool = False
    """Whether an id is drawn as often as it occurs; by default all are equally likely."""
    window_seconds: int | None = None
    """How many seconds before its own hour a row's candidates may have been seen last. None: the whole table."""
    seed: int = 0


@dataclass(frozen=True, eq=False)
class _Candidates:
    """Distinct ids, sorted, with the number of their rows and their columns as last seen."""

    ids: NDArray[np.uint64]
    counts: Rows
    values: Mapping[str, RecordValue]

    @cached_property
    def uniform(self) -> tuple[Rows, Rows]:
        """The weight of each id in a draw, and the sums up to it. Made once for all minibatches of an hour."""
        return np.ones(len(self.ids), np.int64), np.arange(1, len(self.ids) + 1)

    @cached_property
    def frequent(self) -> tuple[Rows, Rows]:
        """The same, as often as ids occur."""
        return self.counts, np.cumsum(self.counts)

    @classmethod
    def merged(cls, parts: Sequence["_Candidates"], columns: Sequence[str]) -> "_Candidates":
        """Parts in the order of time; ids may repeat, also within one."""
        ids, counts = np.concatenate([part.ids for part in parts]), np.concatenate([part.counts for part in parts])
        distinct, from_end, inverse = np.unique(ids[::-1], return_index=True, return_inverse=True)
        totals = np.zeros(len(distinct), np.int64)
        np.add.at(totals, inverse, counts[::-1])
        last = len(ids) - 1 - from_end
        return cls(
            distinct, totals, {name: gather_rows([part.values[name] for part in parts], last) for name in columns}
        )

    @classmethod
    def of_minibatch(cls, record: Mapping[str, RecordValue], columns: Sequence[str], place: str) -> "_Candidates":
        ids, has_id = _ids_of(record[columns[0]], columns[0], place)
        rows = np.flatnonzero(has_id)
        return cls(
            ids[rows], np.ones(len(rows), np.int64), {name: gather_rows([record[name]], rows) for name in columns}
        )


def _ids_of(value: RecordValue, name: str, place: str) -> tuple[NDArray[np.uint64], NDArray[np.bool_]]:
    """The id of each row, and whether it has one."""
    lengths = value.data_len.numpy() if isinstance(value, Bag) else np.zeros((0, 0))
    if not isinstance(value, Bag) or lengths.ndim != 1 or (len(lengths) and lengths.max() > 1):
        raise BadInput(f"negatives.columns: {name!r} must have at most one id per row, {place} has a row with more")
    ids = np.zeros(len(lengths), np.uint64)
    ids[lengths == 1] = value.data.numpy().view(np.uint64)
    return ids, lengths == 1


class NegativeSampler:
    """Draws negatives, and remembers the candidates of each hour of the window.

    Args:
        negatives: How they are drawn.
        options: How to read the table for candidates.
    """

    def __init__(self, negatives: Negatives, options: ReadOptions = ReadOptions()) -> None:
        self.negatives = negatives
        self._options = options
        self._hours: dict[int, _Candidates] = {}
        self._now: tuple[int | None, _Candidates] | None = None

    def candidates(self, table: Table, start: int | None, hour: int | None) -> _Candidates:
        """All candidates for the rows of an hour: those of its own hour and of the window before it, from `start` on;
        those of the whole table if there is no window."""
        window = self.negatives.window_seconds
        key = hour if window is not None else None
        if self._now is not None and self._now[0] == key:
            return self._now[1]
        self._now = None  # free it before the next one is made
        if window is None:
            found = self._read(table, range(table.num_minibatches))
        else:
            assert start is not None
            assert hour is not None
            oldest = max(start, table.period.shift(hour, -window // table.period.seconds))
            wanted = [each for each in table.hours if each is not None and oldest <= each <= hour]
            hours = {each: self._hours.get(each) or self._read(table, table.hours[each]) for each in wanted}
            self._hours = hours
            found = _Candidates.merged(list(hours.values()), self.negatives.columns)
        self._now = (key, found)
        return found

    def _read(self, table: Table, numbers: range) -> _Candidates:
        """Read minibatches, and merge whenever as many rows are new as there were distinct ids before."""
        columns = self.negatives.columns
        parts: list[_Candidates] = []
        num_new = 0
        with table.read_minibatches(numbers, columns, self._options) as reader:
            for record in reader:
                parts.append(_Candidates.of_minibatch(record, columns, f"minibatch {record.number} of {table.name}"))
                num_new += len(parts[-1].ids)
                if num_new > max(_MIN_ROWS_TO_MERGE, len(parts[0].ids)):
                    parts, num_new = [_Candidates.merged(parts, columns)], 0
        return _Candidates.merged(parts, columns)

    def extend(self, record: MinibatchRecord, candidates: _Candidates, epoch: int) -> MinibatchRecord:
        """A minibatch with its negatives: each row, and then its own."""
        drawn = self._draw(record, candidates, epoch)
        num_rows, lengths = len(drawn.has_negatives), np.where(drawn.has_negatives, self.negatives.count + 1, 1)
        row = np.repeat(np.arange(num_rows), lengths)
        is_negative = np.ones(len(row), np.bool_)
        is_negative[np.cumsum(lengths) - lengths] = False
        chosen = row.copy()
        chosen[is_negative] = num_rows + np.arange(len(drawn.places))

        def gather(name: str, value: RecordValue) -> RecordValue:
            if name not in self.negatives.columns:
                return gather_rows([value], row)
            return gather_rows([value, gather_rows([candidates.values[name]], drawn.places)], chosen)

        inputs, targets, keys = (
            {name: gather(name, value) for name, value in part.items()}
            for part in (record.inputs, record.targets, record.keys)
        )
        marks = torch.from_numpy(is_negative)
        label = targets.get(self.negatives.target, torch.ones(len(row)))
        assert isinstance(label, torch.Tensor)
        targets[self.negatives.target] = label.masked_fill(marks.view(-1, *[1] * (label.dim() - 1)), 0.0)
        targets[GROUP_START] = (~marks).float()
        probability = np.empty(len(row), np.float32)
        probability[is_negative], probability[~is_negative] = drawn.probability, drawn.own_probability
        targets[SAMPLING_PROBABILITY] = torch.from_numpy(probability)
        return replace(record, inputs=InputValues(inputs), targets=TargetValues(targets), keys=keys)

    def _draw(self, record: MinibatchRecord, candidates: _Candidates, epoch: int) -> "_Draw":
        name = self.negatives.columns[0]
        own, has_id = _ids_of(record.inputs[name], name, f"minibatch {record.number}")
        weights, ends = candidates.frequent if self.negatives.by_frequency else candidates.uniform
        total = int(ends[-1]) if len(ends) else 0
        place = np.minimum(np.searchsorted(candidates.ids, own), max(len(ends) - 1, 0))
        is_known = has_id & (candidates.ids[place] == own) if total else np.zeros(len(own), np.bool_)
        own_weight = np.where(is_known, weights[place], 0) if total else np.zeros(len(own), np.int64)
        has_negatives = has_id & (total > own_weight)
        # A draw among all but the row's own id: numbers from its place on are moved past it.
        generator = numpy_generator(self.negatives.seed, "negatives", epoch, record.number)
        high = np.maximum(total - own_weight, 1)[:, None]
        numbers = generator.integers(0, high, (len(own), self.negatives.count))[has_negatives]
        first = np.where(is_known, ends[place] - own_weight if total else 0, total)[has_negatives, None]
        numbers += np.where(numbers >= first, own_weight[has_negatives, None], 0)
        places = np.searchsorted(ends, numbers.reshape(-1), side="right")
        own_probability = np.where(is_known, own_weight / max(total, 1), 1.0)
        return _Draw(has_negatives, places, weights[places] / max(total, 1), own_probability)


@dataclass(frozen=True)
class _Draw:
    has_negatives: NDArray[np.bool_]
    """By row."""
    places: Rows
    """Of the candidates that were drawn: those of the first row that has negatives, then of the next."""
    probability: NDArray[np.float64]
    """That one draw gives the candidate, before the row's own id is left out."""
    own_probability: NDArray[np.float64]
    """The same for the candidate of each positive row; 1 if it has none."""


@dataclass(frozen=True, eq=False)
class NegativeStream(Stream):
    """The minibatches of another stream, with negatives."""

    stream: Stream
    table: Table
    """Where candidates come from."""
    start: int | None
    """The hour from which on candidates are drawn; None: the whole table."""
    sampler: NegativeSampler
    epoch: int = 0

    @property
    def num_batches(self) -> int:
        return self.stream.num_batches

    def place_of(self, number: int) -> str:
        return self.stream.place_of(number)

    def open(self, first: int) -> Minibatches:
        with closing(self.stream.open(first)) as records:
            for record in records:
                candidates = self.sampler.candidates(self.table, self.start, record.hour)
                yield self.sampler.extend(record, candidates, self.epoch)
