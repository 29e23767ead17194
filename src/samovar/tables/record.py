"""One minibatch as it was read: names to tensors. Knows no files."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from samovar.errors import UnknownColumn
from samovar.native import DecodedRow
from samovar.tables.bag import Bag
from samovar.tables.cell import DENSE, DISTINCT_IDS, OPAQUE, read_keys

RecordValue: TypeAlias = Bag | torch.Tensor | pa.Array


class Record(Mapping[str, RecordValue]):
    """A `Bag` for each categorical column, a float32 tensor for each real one, an Arrow array for each key."""

    def __init__(self, values: Mapping[str, RecordValue], row: int, hour: int | None, num_examples: int) -> None:
        self._values = values
        self.row = row
        self.hour = hour
        """Start of its hour, seconds since 1970 UTC; None in an offline table."""
        self.num_examples = num_examples

    def __getitem__(self, name: str) -> RecordValue:
        try:
            return self._values[name]
        except KeyError:
            raise UnknownColumn(
                f"minibatch {self.row}: no column {name!r}; it was read with {', '.join(self._values)}: "
                "add it to `columns`"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"Record(row {self.row}, {self.num_examples} examples, {', '.join(self._values)})"


def make_values(names: Sequence[str], decoded: DecodedRow, source: Any) -> dict[str, RecordValue]:
    """Tensors over one decoded minibatch."""
    (values,) = make_rows(names, decoded, source, 1)
    return values


def make_rows(
    names: Sequence[str], decoded: DecodedRow, source: Any, num_rows: int
) -> Iterator[dict[str, RecordValue]]:
    """Tensors over decoded minibatches, one after the other."""
    maker = _Maker(decoded, source)
    cells = decoded.cells
    for row in range(num_rows):
        of_row = cells[row * len(names) : (row + 1) * len(names)]
        yield {name: maker.make(cell) for name, cell in zip(names, of_row, strict=True)}


class _Maker:
    """Tensors over decoded cells. Each section is cut in one call: tensors made one by one would cost a third of the
    decompression. A place is the number of a piece, or (offset, size) of what was not copied out of the source."""

    def __init__(self, decoded: DecodedRow, source: Any) -> None:
        self._decoded = decoded
        self._source = source
        self._words = _cut(decoded.words, decoded.word_sizes)
        self._ints = _cut(decoded.ints, decoded.int_sizes)
        self._floats = _cut(decoded.floats, decoded.float_sizes)
        self._gathered = _Gathered(decoded)
        self._num_distinct = 0

    def make(self, cell: tuple[Any, ...]) -> RecordValue:
        """The value of the next cell."""
        layout, shape, place = cell[0], cell[1], cell[2]
        if layout == DENSE:
            items = self._floats[place] if type(place) is int else _map(self._source, place, torch.float32)
            return items if shape is None else items.view(shape)
        if layout == OPAQUE:
            return read_keys(_bytes(place, self._decoded, self._source))
        ids = self._words[place] if type(place) is int else _map(self._source, place, torch.int64)
        lengths = self._int_piece(cell[4])
        if shape is not None:
            lengths = lengths.view(shape)
        if layout != DISTINCT_IDS:
            return Bag(ids, lengths)
        bag = Bag.of_distinct(ids, self._int_piece(cell[3]), lengths, self._gathered, self._num_distinct)
        self._num_distinct += 1
        return bag

    def _int_piece(self, place: Any) -> torch.Tensor:
        return self._ints[place] if type(place) is int else _map(self._source, place, torch.int32)


def _cut(section: NDArray[Any], sizes: list[int]) -> Sequence[torch.Tensor]:
    return torch.from_numpy(section).split_with_sizes(sizes) if sizes else ()


def _map(source: Any, place: tuple[int, int], dtype: torch.dtype) -> torch.Tensor:
    offset, size = place
    if size == 0:
        return torch.empty(0, dtype=dtype)
    return torch.frombuffer(source, dtype=dtype, count=size, offset=offset)


class _Gathered:
    """The plain ids of all bags that came as distinct ones, made together when the first is asked for."""

    def __init__(self, decoded: DecodedRow) -> None:
        self._decoded = decoded
        self._pieces: Sequence[torch.Tensor] | None = None

    def __getitem__(self, number: int) -> torch.Tensor:
        if self._pieces is None:
            data, sizes = self._decoded.gather()
            self._pieces = torch.from_numpy(data).split_with_sizes(sizes)
        return self._pieces[number]


def _bytes(place: Any, decoded: DecodedRow, source: Any) -> Any:
    if type(place) is int:
        start = sum(decoded.byte_sizes[:place])
        return decoded.bytes[start : start + decoded.byte_sizes[place]]
    offset, size = place
    return np.frombuffer(source, np.uint8, size, offset)
