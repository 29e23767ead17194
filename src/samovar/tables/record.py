"""One minibatch as it was read: names to tensors. Knows no files."""

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
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
    """Tensors over a decoded minibatch. Each section is cut in one call: tensors made one by one would cost a third of
    the decompression."""
    words = _Pieces(decoded.words, decoded.word_sizes, source, torch.int64)
    ints = _Pieces(decoded.ints, decoded.int_sizes, source, torch.int32)
    floats = _Pieces(decoded.floats, decoded.float_sizes, source, torch.float32)
    gathered = _Gathered(decoded)
    values: dict[str, RecordValue] = {}
    num_distinct = 0
    for name, (layout, shape, *places) in zip(names, decoded.cells, strict=True):
        if layout == DENSE:
            items = floats[places[0]]
            values[name] = items if shape is None else items.view(shape)
            continue
        if layout == OPAQUE:
            values[name] = read_keys(_bytes(places[0], decoded, source))
            continue
        lengths = ints[places[2]]
        if shape is not None:
            lengths = lengths.view(shape)
        if layout == DISTINCT_IDS:
            bag = Bag.of_distinct(words[places[0]], ints[places[1]], lengths, partial(gathered.get, num_distinct))
            num_distinct += 1
        else:
            bag = Bag(words[places[0]], lengths)
        values[name] = bag
    return values


class _Pieces(dict[Any, torch.Tensor]):
    """Tensors of one section by their number; by (offset, size) those that were not copied out of the source."""

    def __init__(self, section: NDArray[Any], sizes: list[int], source: Any, dtype: torch.dtype) -> None:
        super().__init__(enumerate(torch.from_numpy(section).split_with_sizes(sizes)) if sizes else ())
        self._source = source
        self._dtype = dtype

    def __missing__(self, place: tuple[int, int]) -> torch.Tensor:
        offset, size = place
        if size == 0:
            return torch.empty(0, dtype=self._dtype)
        return torch.frombuffer(self._source, dtype=self._dtype, count=size, offset=offset)


class _Gathered:
    """The plain ids of all bags that came as distinct ones, made together when the first is asked for."""

    def __init__(self, decoded: DecodedRow) -> None:
        self._decoded = decoded
        self._pieces: Sequence[torch.Tensor] | None = None

    def get(self, number: int) -> torch.Tensor:
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
