"""Hash tables of many features. Not exported by the room, because it needs torch. "Row" means embedding row."""

import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from samovar import _native
from samovar.errors import BadInput

SHARDS: int = _native.HASH_SHARDS
KINDS = {"none": 0, "sgd": 1, "adagrad": 2, "rowwise_adagrad": 3, "adam": 4}
_NAMES = {number: name for name, number in KINDS.items()}
_CHUNK_BYTES = 4 << 20

Inputs = _native.Inputs
Lookup = _native.Lookup


@dataclass(frozen=True)
class RowStep:
    """The numbers of one optimizer step, the same for all rows."""

    kind: str
    lr: float
    eps: float = 0.0
    initial_accumulator: float = 0.0
    betas: tuple[float, float] = (0.0, 0.0)
    weight_decay: float = 0.0
    clip_value: float = 0.0
    clip_norm: float = 0.0
    scale: float = 1.0
    """Multiplies each gradient first."""

    def as_tuple(self) -> tuple[int, float, float, float, float, float, float, float, float, float]:
        return (
            KINDS[self.kind], self.lr, self.eps, self.initial_accumulator, *self.betas, self.weight_decay,
            self.clip_value, self.clip_norm, self.scale,
        )  # fmt: skip


class Gradient(NamedTuple):
    """The gradients of a lookup's outputs, None for an output without one; or one tensor for all, side by side."""

    lookup: Lookup
    outputs: Sequence[torch.Tensor | None]
    num_examples: int
    """Of the lookup: the first dimension of its bags."""
    slice: int = 0
    """The part of the step that it belongs to: sums are in order within a slice, and by a fixed tree over slices."""


class Embedding:
    """The tables of a HashEmbedding, by number, and its features, by name."""

    def __init__(self, bag: type) -> None:
        """`bag` is the type of bags, with `data` or `unique` and `inverse`, and `data_len`."""
        self._bag = bag
        self._core = _native.Embedding()
        self._reader = _native.BagReader(bag)
        self._changing = threading.RLock()
        self._listed: tuple[tuple[int, int, int, bool, int], _native.Listing] | None = None

    def paused(self) -> AbstractContextManager[bool]:
        """While the block runs, calls of other threads that change rows wait."""
        return self._changing

    def add_table(self, dim: int, seed: int, init_scale: float) -> int:
        return self._core.add_table(dim, seed, init_scale)

    def add_feature(self, name: str, table: int, *, is_mean: bool) -> None:
        self._reader.add(name, table, is_mean)

    def set_optimizer(self, table: int, kind: str, ttl: int | None) -> None:
        with self._changing:
            self._core.set_optimizer(table, KINDS[kind], _native.HASH_NEVER if ttl is None else ttl)

    def freeze(self, table: int) -> None:
        with self._changing:
            self._core.freeze(table)

    def set_weights(self, table: int, ids: NDArray[np.uint64], weights: NDArray[np.float32], clock: int) -> None:
        with self._changing:
            self._core.set_weights(table, ids, weights.reshape(-1), clock)

    def kind(self, table: int) -> str:
        return _NAMES[self._core.kind(table)]

    def dim(self, table: int) -> int:
        return self._core.dim(table)

    def ttl(self, table: int) -> int | None:
        ttl = self._core.ttl(table)
        return None if ttl == _native.HASH_NEVER else ttl

    def width(self, table: int) -> int:
        """Floats per row: weights and optimizer state."""
        return self._core.width(table)

    @property
    def version(self) -> int:
        """Changes whenever a row may have changed."""
        return self._core.version

    def read(self, inputs: Mapping[str, Any]) -> Inputs:
        """The bags of the features in `inputs`, in the order in which features were added."""
        given = inputs if isinstance(inputs, dict) else dict(inputs)
        try:
            return self._reader.read(given)
        except ValueError as error:
            (name,) = error.args
            raise _unreadable_bag(name, given[name], self._bag) from error

    def lookup(self, inputs: Inputs, outputs: Sequence[torch.Tensor], clock: int, *, is_training: bool) -> Lookup:
        """Find all rows and pool them into the outputs. Training inserts new ids and resets expired ones."""
        places = [(out.data_ptr(), out.shape[-1]) for out in outputs]
        try:
            with self._changing if is_training else nullcontext():
                return self._core.lookup(inputs, places, clock, is_training, torch.get_num_threads())
        except ValueError as error:
            raise _bad_bag(inputs, *error.args) from error

    def lookup_columns(self, inputs: Inputs, output: torch.Tensor, clock: int, *, is_training: bool) -> Lookup:
        """Like `lookup`, into one wide output with the features side by side."""
        place = (output.data_ptr(), output.shape[-1])
        try:
            with self._changing if is_training else nullcontext():
                return self._core.lookup_columns(inputs, place, clock, is_training, torch.get_num_threads())
        except ValueError as error:
            raise _bad_bag(inputs, *error.args) from error

    def prefetch(self, inputs: Inputs) -> None:
        self._core.prefetch(inputs)

    def update(self, gradients: Sequence[Gradient], step: RowStep) -> None:
        held = [[None if g is None else _contiguous_rows(g) for g in gradient.outputs] for gradient in gradients]
        pending = [
            (gradient.lookup, [None if g is None else (g.data_ptr(), g.stride(0)) for g in outputs], gradient.slice)
            for gradient, outputs in zip(gradients, held, strict=True)
        ]
        with self._changing:
            self._core.update(pending, step.as_tuple(), torch.get_num_threads())

    def sweep(self, clock: int, shard: int | None = None) -> int:
        if shard is not None and not 0 <= shard < SHARDS:
            raise BadInput(f"sweep: shard must be 0 to {SHARDS - 1}, or None for all, got {shard}")
        first, last = (0, SHARDS) if shard is None else (shard, shard + 1)
        with self._changing:
            return self._core.sweep(clock, first, last, torch.get_num_threads())

    def counters(self, table: int) -> dict[str, int]:
        return self._core.counters(table)

    def count_ages(self, table: int, clock: int, num_ages: int) -> NDArray[np.uint64]:
        counts = np.zeros(num_ages, np.uint64)
        self._core.count_ages(table, clock, counts)
        return counts

    def count_live(self, clock: int) -> list[int]:
        """The number of rows of each table that are not expired."""
        return self._core.count_live(clock, torch.get_num_threads())

    def count_shard(self, table: int, shard: int, clock: int) -> int:
        """The number of rows of one shard that are not expired."""
        return self._core.count_shard(table, shard, clock)

    def get(
        self, table: int, ids: NDArray[np.uint64]
    ) -> tuple[NDArray[np.float32], NDArray[np.uint32], NDArray[np.bool_]]:
        """Rows, stamps, and whether each id exists, expired or not."""
        width = self.width(table)
        rows = np.zeros((len(ids), width), np.float32)
        stamps, found = np.zeros(len(ids), np.uint32), np.zeros(len(ids), np.uint8)
        self._core.get(table, np.ascontiguousarray(ids), rows.reshape(-1), stamps, found)
        return rows, stamps, found.astype(bool)

    def stream(self, table: int, shard: int, clock: int, field: str, *, is_sorted: bool) -> Iterator[memoryview]:
        """`ids`, `stamps` or `rows` of the rows of a shard that are not expired, in buffers that are reused."""
        listing = self._list(table, shard, clock, is_sorted)
        width = self.width(table) if field == "rows" else 1
        dtype: Any = {"ids": np.uint64, "stamps": np.uint32, "rows": np.float32}[field]
        rows_per_piece = max(_CHUNK_BYTES // np.dtype(dtype).itemsize // width, 1)
        buffers = [np.empty(min(rows_per_piece, len(listing)) * width, dtype) for _ in range(2)]

        def fill(number: int) -> memoryview:
            start = number * rows_per_piece
            piece = buffers[number % 2][: min(rows_per_piece, len(listing) - start) * width]
            getattr(listing, field)(start, piece)
            return piece.view(np.uint8).data

        num_pieces = -(-len(listing) // rows_per_piece)
        if num_pieces == 1:  # starting a thread would take longer
            yield fill(0)
        elif num_pieces > 1:
            ahead = ThreadPoolExecutor(1)  # one piece is gathered while the one before is written
            pending = ahead.submit(fill, 0)
            try:
                for number in range(num_pieces):
                    ready = pending.result()
                    if number + 1 < num_pieces:
                        pending = ahead.submit(fill, number + 1)
                    yield ready
            finally:
                ahead.shutdown(wait=False)  # do not wait, for the reason given in tables/reader.py
        if field == "rows":
            self._listed = None  # the last field

    def _list(self, table: int, shard: int, clock: int, is_sorted: bool) -> _native.Listing:
        """Made once per shard, whose fields are streamed one after the other."""
        key = (table, shard, clock, is_sorted, self.version)
        listed = self._listed  # other threads may read other shards
        if listed is None or listed[0] != key:
            self._listed = listed = None  # free it before the next one is made
            self._listed = listed = (key, _native.Listing(self._core, table, shard, clock, is_sorted))
        return listed[1]

    def load(self, table: int, kind: str, num_rows: int) -> "Loading":
        return Loading(self._core, table, kind, num_rows, self._changing)


class Loading:
    """A table that is filled beside the one in use, and replaces it when complete."""

    def __init__(
        self, core: _native.Embedding, table: int, kind: str, num_rows: int, changing: AbstractContextManager[bool]
    ) -> None:
        self._core, self._table, self._changing = core, table, changing
        self._loading = _native.Loading(core, table, KINDS[kind], num_rows)

    def insert(
        self, shard: int, ids: NDArray[np.uint64], stamps: NDArray[np.uint32], rows: NDArray[np.float32]
    ) -> None:
        """ValueError for an id of another shard, or one that exists."""
        self._loading.insert(shard, ids, stamps, rows.reshape(-1))

    def finish(self, counters: Sequence[int]) -> None:
        """Replace the table; `counters` are inserted, reset, freed, missed and skipped."""
        with self._changing:
            self._loading.finish(self._core, self._table, list(counters))


def _bad_bag(inputs: Inputs, what: str, number: int) -> BadInput:
    name = inputs.names[number]
    return BadInput(f"feature {name!r}: the Bag does not add up: {what}")


def _unreadable_bag(name: str, found: Any, bag: type) -> BadInput:
    """The error for a value that is not a readable bag."""
    if not isinstance(found, bag):
        return BadInput(
            f"feature {name!r}: expected a {bag.__name__}, got {type(found).__name__}. Wrap ids as "
            f"{bag.__name__}(data, data_len); real values belong to the dense part"
        )
    given: Any = found  # only the caller knows its type
    ids = given.data if given.unique is None else given.unique
    parts = {"ids": ids, "data_len": given.data_len, "inverse": given.inverse}
    described = ", ".join(f"{part} {_describe(tensor)}" for part, tensor in parts.items() if tensor is not None)
    return BadInput(
        f"feature {name!r}: expected contiguous tensors on the CPU, with ids int64 and inverse int32 of rank 1 and "
        f"data_len int32, got {described}"
    )


def _describe(tensor: Any) -> str:
    if not isinstance(tensor, torch.Tensor):
        return f"of type {type(tensor).__name__}"
    layout = "" if tensor.is_contiguous() else ", not contiguous"
    return f"{str(tensor.dtype).removeprefix('torch.')} of rank {tensor.dim()} on {tensor.device}{layout}"


def _contiguous_rows(gradient: torch.Tensor) -> torch.Tensor:
    """The gradient as float32 [bags, dim] on the CPU with contiguous rows. A slice of a wider one is not copied."""
    if gradient.dtype is not torch.float32 or not gradient.is_cpu:
        gradient = gradient.to("cpu", torch.float32)
    if gradient.dim() != 2:
        gradient = gradient.reshape(-1, gradient.shape[-1])
    return gradient if gradient.stride(1) == 1 else gradient.contiguous()
