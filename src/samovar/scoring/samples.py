"""Made-up rows that fit a signature: what an exported program is checked with. Knows no files."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.scoring.signature import Inputs, Signature
from samovar.seeds import numpy_generator
from samovar.tables.record import Bag, RecordValue
from samovar.tables.schema import ColumnSchema

_MAX_IDS = 3
_SHARE_OF_KNOWN = 0.75


def sample_inputs(
    signature: Signature, num_rows: int, known: Mapping[str, NDArray[np.uint64]], *, max_length: int = 9, seed: int = 0
) -> Inputs:
    """Inputs of rows that nobody measured: numbers of a normal distribution, ids that are known and unknown.

    Args:
        signature: The columns.
        num_rows: How many rows.
        known: Ids to use beside unknown ones, by column.
        max_length: Of sequences.
        seed: Other seeds give other rows.

    Raises:
        BadInput: Nothing says how long the lists of a column are.
    """
    inputs: dict[str, RecordValue] = {}
    # All sequences of a row have one length, because a model may join them.
    ends = numpy_generator(seed, "lengths").integers(1, max_length + 1, num_rows)
    ends[:1] = max_length
    for number, column in enumerate(signature.inputs):
        random = numpy_generator(seed, "samples", number)
        if column.kind == "real":
            shape = (num_rows, *shape_of(column))
            inputs[column.name] = torch.from_numpy(random.standard_normal(shape).astype(np.float32))
        else:
            inputs[column.name] = _bag(column, num_rows, known.get(column.name), max_length, ends, random)
    return inputs


def shape_of(column: ColumnSchema) -> tuple[int, ...]:
    """Of one row of a real column."""
    shape: Any = () if column.rank == 1 else (column.converter or {}).get("shape")
    if shape is None or len(shape) != column.rank - 1:
        raise BadInput(
            f"column {column.name!r}: the training table does not say how long its lists are, so no rows can be made "
            "up to check the model with. Brew it from raw rows"
        )
    return tuple(shape)


def _bag(
    column: ColumnSchema,
    num_rows: int,
    known: NDArray[np.uint64] | None,
    max_length: int,
    ends: NDArray[np.int64],
    random: np.random.Generator,
) -> Bag:
    is_sequence = (column.converter or {}).get("role") == "id_sequence"
    least = 0 if column.rank == 1 else 1
    shape = (num_rows, *[max_length] * (column.rank - 1))
    lengths = np.ones(shape, np.int64) if is_sequence else random.integers(least, _MAX_IDS + 1, shape)
    for axis in range(1, column.rank):
        places = np.arange(max_length).reshape([-1 if each == axis else 1 for each in range(column.rank)])
        lengths = lengths * (places < ends.reshape(-1, *[1] * (column.rank - 1)))
    count = int(lengths.sum())
    ids = random.integers(0, 2**64, count, np.uint64, endpoint=False)
    if known is not None and len(known):
        ids = np.where(random.random(count) < _SHARE_OF_KNOWN, random.choice(known, count), ids)
    return Bag.of_checked(torch.from_numpy(ids.view(np.int64)), torch.from_numpy(lengths.astype(np.int32)))


def take_rows(inputs: Inputs, rows: NDArray[np.int64]) -> Inputs:
    """The inputs of some rows, in this order."""
    return {name: _take(value, rows) for name, value in inputs.items()}


def _take(value: RecordValue, rows: NDArray[np.int64]) -> RecordValue:
    if not isinstance(value, Bag):
        return value[torch.from_numpy(rows)] if isinstance(value, torch.Tensor) else value.take(rows)
    lengths = value.data_len.numpy()
    counts = lengths.reshape(len(lengths), -1).sum(1, dtype=np.int64)
    ends = np.cumsum(counts)
    pieces = [value.data[ends[row] - counts[row] : ends[row]] for row in rows.tolist()]
    data = torch.cat(pieces) if pieces else value.data[:0]
    return Bag.of_checked(data, torch.from_numpy(np.ascontiguousarray(lengths[rows])))
