"""One minibatch as it was read: names to tensors. Knows no files.

A categorical feature of one minibatch. Knows no tables and no embeddings.
"""

from collections.abc import ItemsView, Iterator, Mapping, Sequence, ValuesView
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import DTypeLike, NDArray

from samovar.errors import BadInput, UnknownColumn
from samovar.native import DecodedMinibatches
from samovar.tables.cell import DENSE, OPAQUE, PLAIN_IDS, read_keys


class DataLater(Protocol):
    """Data of bags that nobody has asked for yet, by number."""

    def __getitem__(self, number: int, /) -> torch.Tensor: ...


class Bag:
    """Ids of all examples end to end, and how many belong to each.

    `data` is int64 with the 64 bits of the unsigned id; `data_len` is int32, [B] or deeper, and adds up to len(data).
    A table may have kept distinct ids and positions: then `unique` and `inverse` are given without work, and
    data == unique[inverse]; else both are None. Bags of a minibatch may share a data_len: do not change it in place.

    Examples:
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
    """

    __slots__ = ("_data", "_later", "data_len", "inverse", "unique")

    def __init__(self, data: torch.Tensor, data_len: torch.Tensor) -> None:
        if data.dtype != torch.int64 or data.ndim != 1 or data_len.dtype != torch.int32:
            raise BadInput(
                f"Bag: found data {data.dtype} of rank {data.ndim} and data_len {data_len.dtype}; "
                "expected int64 of rank 1 and int32: convert them"
            )
        self._data: torch.Tensor | None = data
        self._later: tuple[DataLater, int] | None = None
        self.data_len = data_len
        self.unique: torch.Tensor | None = None
        self.inverse: torch.Tensor | None = None

    @classmethod
    def of_checked(cls, data: torch.Tensor, data_len: torch.Tensor) -> "Bag":
        """A bag of tensors that are known to have the right types, as those of a table are."""
        bag = cls.__new__(cls)
        bag._data, bag.data_len = data, data_len
        bag._later = bag.unique = bag.inverse = None
        return bag

    @classmethod
    def of_distinct(
        cls,
        unique: torch.Tensor,
        inverse: torch.Tensor,
        data_len: torch.Tensor,
        later: tuple[DataLater, int] | None = None,
    ) -> "Bag":
        """A bag of distinct ids and positions (int32). `later` and a number in it give its data when somebody asks: a
        whole minibatch makes those of all its bags at once, and vouches that its ids are distinct."""
        if later is None and (num_distinct := len(set(unique.reshape(-1).tolist()))) != unique.numel():
            raise BadInput(
                f"Bag: {unique.numel()} ids in `unique`, but only {num_distinct} distinct ones; expected each once: "
                "let torch.unique(data, return_inverse=True) make them"
            )
        bag = cls.__new__(cls)
        bag._data, bag._later = None, later
        bag.data_len, bag.unique, bag.inverse = data_len, unique, inverse
        return bag

    @property
    def data(self) -> torch.Tensor:
        if self._data is None:
            assert self.unique is not None
            assert self.inverse is not None
            if self._later is None:
                self._data = self.unique[self.inverse.long()]
            else:
                later, number = self._later
                self._data = later[number]
            self._later = None
        return self._data

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.data_len)

    def __repr__(self) -> str:
        return f"Bag({len(self.data)} ids, data_len {list(self.data_len.shape)})"


RecordValue: TypeAlias = Bag | torch.Tensor | pa.Array
Cell: TypeAlias = tuple[int, Any, int, int, int]
"""layout, shape, and the numbers of its pieces: native's DecodedMinibatches.cells"""


class Record(Mapping[str, RecordValue]):
    """A `Bag` for each categorical column, a float32 tensor for each real one, an Arrow array for each key."""

    def __init__(
        self,
        values: Mapping[str, RecordValue],
        number: int,
        hour: int | None,
        num_examples: int,
        is_private: bool = False,
    ) -> None:
        self._values = values
        self.number = number
        """Its place in the table, from 0."""
        self.hour = hour
        """Start of its hour, seconds since 1970 UTC; None in an offline table."""
        self.num_examples = num_examples
        self.is_private = is_private
        """Nobody else will see the memory that its tensors lie in."""

    def __getitem__(self, name: str) -> RecordValue:
        try:
            return self._values[name]
        except KeyError:
            raise UnknownColumn(
                f"minibatch {self.number}: no column {name!r}; it was read with {', '.join(self._values)}: "
                "add it to `columns`"
            ) from None

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[RecordValue]:
        return self._values.values()  # what Mapping offers would look up name after name

    def items(self) -> ItemsView[str, RecordValue]:
        return self._values.items()

    def __repr__(self) -> str:
        return f"Record(minibatch {self.number}, {self.num_examples} examples, {', '.join(self._values)})"


@dataclass(frozen=True)
class MinibatchRecord:
    """What a model gets, what its loss gets, and the keys by which predictions are found again."""

    inputs: Mapping[str, RecordValue]
    targets: Mapping[str, RecordValue] = field(default_factory=dict)
    keys: Mapping[str, RecordValue] = field(default_factory=dict)
    num_examples: int = 0
    number: int = 0
    """Its place in the table."""
    hour: int | None = None
    """Start of its hour, seconds since 1970 UTC; None in an offline table."""


def make_minibatches(
    names: Sequence[str], decoded: DecodedMinibatches, source: Any, count: int
) -> Iterator[dict[str, RecordValue]]:
    """Tensors over decoded minibatches, one after the other."""
    maker = _Maker(decoded, source)
    cells = zip(*decoded.cells, strict=True)
    for _ in range(count):
        yield maker.make(names, cells)


class _Maker:
    """Tensors over decoded cells: of what was decoded each section is cut in one call, of what was left where it lies
    each piece is a slice of the source. Every line here is paid for each tensor of each minibatch: made naively, they
    cost as much as a third of the decompression."""

    def __init__(self, decoded: DecodedMinibatches, source: Any) -> None:
        self._words = _pieces(decoded.words, decoded.word_sizes, source, decoded.mapped_words)
        self._ints = _pieces(decoded.ints, decoded.int_sizes, source, decoded.mapped_ints)
        self._floats = _pieces(decoded.floats, decoded.float_sizes, source, decoded.mapped_floats)
        self._bytes = _split(decoded.bytes, decoded.byte_sizes) + _slice(source, np.uint8, decoded.mapped_bytes)
        self._gathered = _Gathered(decoded)
        self._num_distinct = 0

    def make(self, names: Sequence[str], cells: Iterator[Cell]) -> dict[str, RecordValue]:
        """The values of the next minibatch: takes one cell a name."""
        words, ints, floats = self._words, self._ints, self._floats
        values: dict[str, RecordValue] = {}
        for name, (layout, shape, piece, lengths, positions) in zip(names, cells, strict=False):  # more follow
            if layout == DENSE:
                values[name] = floats[piece] if shape is None else floats[piece].view(shape)
            elif layout == OPAQUE:
                values[name] = read_keys(self._bytes[piece])
            else:
                data_len = ints[lengths] if shape is None else ints[lengths].view(shape)
                if layout == PLAIN_IDS:
                    values[name] = Bag.of_checked(words[piece], data_len)
                else:
                    later = (self._gathered, self._num_distinct)
                    values[name] = Bag.of_distinct(words[piece], ints[positions], data_len, later)
                    self._num_distinct += 1
        return values


def _pieces(
    section: NDArray[Any], sizes: list[int], source: Any, mapped: tuple[list[int], list[int]]
) -> Sequence[torch.Tensor]:
    """First those in memory of our own, then those in the source."""
    # "unsafe" is about gradients through the parts; that these are not tied to each other is what is wanted
    pieces = torch.from_numpy(section).unsafe_split_with_sizes(sizes) if sizes else ()
    return (*pieces, *map(torch.from_numpy, _slice(source, section.dtype, mapped))) if mapped[0] else pieces


def _split(section: NDArray[Any], sizes: list[int]) -> list[NDArray[Any]]:
    return np.split(section, np.cumsum(sizes[:-1])) if sizes else []


def _slice(source: Any, dtype: DTypeLike, mapped: tuple[list[int], list[int]]) -> list[NDArray[Any]]:
    if not mapped[0]:
        return []
    items = np.frombuffer(source, dtype, len(source) // np.dtype(dtype).itemsize)
    return [items[first:last] for first, last in zip(*mapped, strict=True)]


class _Gathered:
    """The plain ids of all bags that came as distinct ones, made together when the first is asked for."""

    def __init__(self, decoded: DecodedMinibatches) -> None:
        self._decoded = decoded
        self._pieces: Sequence[torch.Tensor] | None = None

    def __getitem__(self, number: int) -> torch.Tensor:
        if self._pieces is None:
            data, sizes = self._decoded.gather()
            self._pieces = torch.from_numpy(data).split_with_sizes(sizes)
        return self._pieces[number]
