"""One minibatch as it was read: `Record` and `MinibatchRecord` map names to tensors, a categorical feature is a `Bag`.

Knows no files and no embeddings.
"""

from collections.abc import ItemsView, Iterable, Iterator, Mapping, MutableMapping, Sequence, ValuesView
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import DTypeLike, NDArray

from samovar.config.values import suggest
from samovar.errors import BadInput, UnknownColumn
from samovar.native import DecodedMinibatches
from samovar.notebook import html_table
from samovar.tables.cell import DENSE, KEYS, PLAIN_IDS, CellColumns
from samovar.tables.keys import plain_values

_FIRST = 8
"""How many values of a column a notebook shows."""


class DeferredIds(Protocol):
    """The ids of several bags, by number, made when the first of them is used."""

    def __getitem__(self, number: int, /) -> torch.Tensor: ...


class Bag:
    """A categorical feature of one minibatch: the ids of all examples end to end, and the number of ids per example.

    A table may store distinct ids and positions. Then `unique` and `inverse` are available without work, with
    `data == unique[inverse]`; otherwise both are None. Bags of one minibatch may share a `data_len`: do not change it
    in place.

    Args:
        data: int64 of rank 1, the 64 bits of the unsigned ids.
        data_len: int32, [B] or deeper; its sum is `len(data)`.

    Raises:
        BadInput: A tensor has another dtype or rank.

    Example:
        Three examples: the first has id 124, the second 456, the third none.

        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1, 0], dtype=torch.int32))
        >>> len(bag)
        3
        >>> bag
        Bag(2 ids, data_len [3])
    """

    __slots__ = ("_data", "_deferred", "data_len", "inverse", "unique")

    def __init__(self, data: torch.Tensor, data_len: torch.Tensor) -> None:
        if data.dtype != torch.int64 or data.ndim != 1 or data_len.dtype != torch.int32:
            raise BadInput(
                f"Bag: data must be int64 of rank 1 and data_len int32, got {data.dtype} of rank {data.ndim} and "
                f"{data_len.dtype}"
            )
        self._data: torch.Tensor | None = data
        self._deferred: tuple[DeferredIds, int] | None = None
        self.data_len = data_len
        self.unique: torch.Tensor | None = None
        self.inverse: torch.Tensor | None = None

    @classmethod
    def of_checked(cls, data: torch.Tensor, data_len: torch.Tensor) -> "Bag":
        """A bag of tensors that are known to have the right types, as those of a table are.

        Args:
            data: Ids of all examples, end to end: int64.
            data_len: How many belong to each example: int32.
        """
        bag = cls.__new__(cls)
        bag._data, bag.data_len = data, data_len
        bag._deferred = bag.unique = bag.inverse = None
        return bag

    @classmethod
    def of_distinct(
        cls,
        unique: torch.Tensor,
        inverse: torch.Tensor,
        data_len: torch.Tensor,
        deferred: tuple[DeferredIds, int] | None = None,
    ) -> "Bag":
        """A bag of distinct ids and positions (int32).

        `deferred` and a number in it give `data` on first use: a minibatch makes the ids of all its bags at once, and
        guarantees that `unique` has no duplicates.

        Args:
            unique: The distinct ids, in the order in which they first occur.
            inverse: For each id of the bag, its position in `unique`.
            data_len: How many ids belong to each example: int32.
            deferred: What makes the ids of several bags at once, and the number of this one.
        """
        if deferred is None and (num_distinct := len(set(unique.reshape(-1).tolist()))) != unique.numel():
            raise BadInput(
                f"Bag: `unique` must hold each id once, got {num_distinct} distinct ids among {unique.numel()}. "
                "torch.unique(data, return_inverse=True) gives both"
            )
        bag = cls.__new__(cls)
        bag._data, bag._deferred = None, deferred
        bag.data_len, bag.unique, bag.inverse = data_len, unique, inverse
        return bag

    @property
    def data(self) -> torch.Tensor:
        """The ids of all examples, end to end."""
        if self._data is None:
            assert self.unique is not None
            assert self.inverse is not None
            if self._deferred is None:
                self._data = self.unique[self.inverse.long()]
            else:
                deferred, number = self._deferred
                self._data = deferred[number]
            self._deferred = None
        return self._data

    def __len__(self) -> int:
        """The number of examples."""
        return len(self.data_len)

    def __repr__(self) -> str:
        return f"Bag({len(self.data)} ids, data_len {list(self.data_len.shape)})"

    def _repr_html_(self) -> str:
        """What a notebook shows: the ids of the first examples, unsigned as in the source."""
        counts = self.data_len.reshape(len(self), -1).sum(1)
        stops = counts.cumsum(0).tolist()
        rows = (
            (example, _show_ids(self.data[stop - count : stop]))
            for example, (count, stop) in enumerate(zip(counts.tolist(), stops, strict=True))
        )
        return html_table(repr(self), ("example", "ids"), rows)


def _show_ids(ids: torch.Tensor) -> str:
    return _show_first(ids[:_FIRST].cpu().numpy().view(np.uint64).tolist(), len(ids))


def _show_first(values: Sequence[Any], count: int) -> str:
    return ", ".join(map(str, values)) + (", …" if count > len(values) else "")


RecordValue: TypeAlias = Bag | torch.Tensor | pa.Array
Cell: TypeAlias = tuple[int, Any, int, int, int]
"""Layout, shape, and the numbers of its pieces: see `DecodedMinibatches.cells`."""


class Record(MutableMapping[str, RecordValue]):
    """One minibatch of a table: column names to values.

    A categorical column is a `Bag`, a real one a float32 tensor, a key an Arrow array. You may replace columns and add
    your own; nothing is written to the table.

    Args:
        values: The values by column name.
        number: The number of the minibatch in its table.
        hour: Start of its hour, in seconds since 1970 UTC; None in an offline table.
        num_examples: The number of its examples.
        is_private: Whether no other record uses the memory of its tensors.

    Example:
        >>> record = next(samovar.open_table("clicks").read(["user", "clicked"]))
        >>> record
        Record(minibatch 0, 3 examples, user, clicked)
        >>> record["user"].data_len, record["clicked"]
        (tensor([1, 1, 0], dtype=torch.int32), tensor([0., 1., 0.]))
    """

    def __init__(
        self,
        values: dict[str, RecordValue],
        number: int,
        hour: int | None,
        num_examples: int,
        is_private: bool = False,
    ) -> None:
        self._values = values
        self.number = number
        """Its place in the table, from 0."""
        self.hour = hour
        """Start of its hour, in seconds since 1970 UTC; None in an offline table."""
        self.num_examples = num_examples
        self.is_private = is_private
        """No other record uses the memory of its tensors."""

    def __getitem__(self, name: str) -> RecordValue:
        try:
            return self._values[name]
        except KeyError:
            raise UnknownColumn(
                f"minibatch {self.number}: no column {name!r} was read{suggest(name, self._values)}"
            ) from None

    def __setitem__(self, name: str, value: RecordValue) -> None:
        self._values[name] = value

    def __delitem__(self, name: str) -> None:
        del self._values[name]

    def __copy__(self) -> "Record":
        """With a mapping of its own, as `DataLoader` expects, which copies a record before it converts the values."""
        return Record(dict(self._values), self.number, self.hour, self.num_examples, self.is_private)

    def __contains__(self, name: object) -> bool:
        return name in self._values  # Mapping's own would make the error above first

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def values(self) -> ValuesView[RecordValue]:
        return self._values.values()  # Mapping's own would look up one name after the other

    def items(self) -> ItemsView[str, RecordValue]:
        return self._values.items()

    def __repr__(self) -> str:
        return f"Record(minibatch {self.number}, {self.num_examples} examples, {', '.join(self._values)})"

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        rows = [(name, _describe(value), _first_values(value)) for name, value in self.items()]
        return html_table(
            f"minibatch {self.number}: {self.num_examples:,} examples", ("column", "value", "first"), rows
        )


def _describe(value: RecordValue) -> str:
    if isinstance(value, torch.Tensor):
        return f"{str(value.dtype).removeprefix('torch.')} {list(value.shape)}"
    return repr(value) if isinstance(value, Bag) else f"{value.type}[{len(value)}]"


def _first_values(value: RecordValue) -> str:
    if isinstance(value, Bag):
        return _show_ids(value.data)
    if isinstance(value, torch.Tensor):
        return _show_first([f"{each:.6g}" for each in value.reshape(-1)[:_FIRST].tolist()], value.numel())
    return _show_first(plain_values(value[:_FIRST]), len(value))


@dataclass(frozen=True)
class MinibatchRecord:
    """One minibatch, sorted by use: what the model gets, what its loss gets, and the keys of its predictions.

    Example:
        >>> bag = Bag(torch.tensor([124, 456]), torch.tensor([1, 1], dtype=torch.int32))
        >>> record = MinibatchRecord({"user": bag}, {"clicked": torch.tensor([0.0, 1.0])}, num_examples=2)
        >>> record.inputs["user"].data
        tensor([124, 456])
    """

    inputs: Mapping[str, RecordValue]
    """What the model gets, by feature."""
    targets: Mapping[str, RecordValue] = field(default_factory=dict)
    """What the loss gets."""
    keys: Mapping[str, RecordValue] = field(default_factory=dict)
    """What identifies the examples."""
    num_examples: int = 0
    """The number of examples."""
    number: int = 0
    """Its place in the table, from 0."""
    hour: int | None = None
    """Start of its hour, in seconds since 1970 UTC; None in an offline table."""
    num_replayed: int = 0
    """Rows of earlier hours at the end of each tensor, behind the `num_examples` new ones."""


def make_minibatches(
    columns: CellColumns, decoded: DecodedMinibatches, source: Any, num_examples: Iterable[int]
) -> Iterator[dict[str, RecordValue]]:
    """The values of decoded minibatches as tensors, one minibatch after the other. ValueError with what is wrong and
    the name of the column if a key cannot be."""
    maker = _TensorMaker(columns, decoded, source)
    cells = zip(*decoded.cells, strict=True)
    for count in num_examples:
        yield maker.make(cells, count)


class _TensorMaker:
    """Tensors over decoded cells, without copies.

    Decoded sections are split in one call; a piece that stays in the source is a slice of it. Every line here runs for
    each tensor of each minibatch: a naive version takes a third of the time of decompression."""

    def __init__(self, columns: CellColumns, decoded: DecodedMinibatches, source: Any) -> None:
        self._names, self._keys = columns.names, columns.keys
        self._words = _pieces(decoded.words, decoded.word_sizes, source, decoded.mapped_words)
        self._ints = _pieces(decoded.ints, decoded.int_sizes, source, decoded.mapped_ints)
        self._floats = _pieces(decoded.floats, decoded.float_sizes, source, decoded.mapped_floats)
        self._bytes = _split(decoded.bytes, decoded.byte_sizes)
        self._ids = _GatheredIds(decoded)
        self._num_distinct = 0

    def make(self, cells: Iterator[Cell], num_examples: int) -> dict[str, RecordValue]:
        """The values of the next minibatch: consumes one cell per column."""
        words, ints, floats = self._words, self._ints, self._floats
        values: dict[str, RecordValue] = {}
        for name, (layout, shape, piece, lengths, positions) in zip(self._names, cells, strict=False):  # more follow
            if layout == DENSE:
                values[name] = floats[piece] if shape is None else floats[piece].view(shape)
            elif layout == KEYS:
                values[name] = self._make_keys(name, self._bytes[piece], num_examples, has_nulls=positions != 0)
            else:
                data_len = ints[lengths] if shape is None else ints[lengths].view(shape)
                if layout == PLAIN_IDS:
                    values[name] = Bag.of_checked(words[piece], data_len)
                else:
                    deferred = (self._ids, self._num_distinct)
                    values[name] = Bag.of_distinct(words[piece], ints[positions], data_len, deferred)
                    self._num_distinct += 1
        return values

    def _make_keys(self, name: str, raw: NDArray[np.uint8], num_examples: int, *, has_nulls: bool) -> pa.Array:
        try:
            return self._keys[name].from_bytes(raw, num_examples, has_nulls)
        except ValueError as error:
            raise ValueError(f"has an invalid key: {error}", name) from error


def _pieces(
    section: NDArray[Any], sizes: list[int], source: Any, mapped: tuple[list[int], list[int]]
) -> Sequence[torch.Tensor]:
    """First the pieces in our own memory, then those in the source."""
    # "unsafe" is about gradients through the pieces; here they must be independent tensors
    pieces = torch.from_numpy(section).unsafe_split_with_sizes(sizes) if sizes else ()
    return (*pieces, *map(torch.from_numpy, _slice(source, section.dtype, mapped))) if mapped[0] else pieces


def _split(section: NDArray[Any], sizes: list[int]) -> list[NDArray[Any]]:
    return np.split(section, np.cumsum(sizes[:-1])) if sizes else []


def _slice(source: Any, dtype: DTypeLike, mapped: tuple[list[int], list[int]]) -> list[NDArray[Any]]:
    if not mapped[0]:
        return []
    items = np.frombuffer(source, dtype, len(source) // np.dtype(dtype).itemsize)
    return [items[first:last] for first, last in zip(*mapped, strict=True)]


class _GatheredIds:
    """The plain ids of all bags that are stored as distinct ids, made together when the first is used."""

    def __init__(self, decoded: DecodedMinibatches) -> None:
        self._decoded = decoded
        self._pieces: Sequence[torch.Tensor] | None = None

    def __getitem__(self, number: int) -> torch.Tensor:
        if self._pieces is None:
            data, sizes = self._decoded.gather()
            self._pieces = torch.from_numpy(data).split_with_sizes(sizes)
        return self._pieces[number]
