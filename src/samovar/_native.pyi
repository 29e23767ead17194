"""The C++ core. Only samovar.native imports it."""

from collections.abc import Sequence
from typing import Annotated, Any, overload

import numpy
from numpy.typing import NDArray


def load_codec(codec: int, path: str) -> str:
    """
    Load zstd (1) or lz4 (2) from a shared library that passes its self-check; return its version.
    """

def encode_dense(items: Annotated[NDArray[numpy.float32], dict(order='C', device='cpu', writable=False)], codec: int, level: int) -> bytes:
    """A dense float32 cell."""

def encode_bag(ids: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], lengths: Annotated[NDArray[numpy.int32], dict(order='C', device='cpu', writable=False)], codec: int, level: int) -> bytes:
    """
    A cell of ids, stored as distinct ids and positions if that is smaller.
    """

def encode_keys(raw: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], values: int, width: int, has_nulls: bool, count: int, num_bytes: int, codec: int, level: int) -> bytes:
    """A cell of keys; keys.h draws the raw bytes."""

class DecodedMinibatches:
    """Cells as sections of memory, cut into pieces."""

    @property
    def words(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]: ...

    @property
    def ints(self) -> Annotated[NDArray[numpy.int32], dict(shape=(None,))]: ...

    @property
    def floats(self) -> Annotated[NDArray[numpy.float32], dict(shape=(None,))]: ...

    @property
    def bytes(self) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]: ...

    @property
    def word_sizes(self) -> list[int]: ...

    @property
    def int_sizes(self) -> list[int]: ...

    @property
    def float_sizes(self) -> list[int]: ...

    @property
    def byte_sizes(self) -> list[int]: ...

    @property
    def mapped_words(self) -> tuple[list[int], list[int]]: ...

    @property
    def mapped_ints(self) -> tuple[list[int], list[int]]: ...

    @property
    def mapped_floats(self) -> tuple[list[int], list[int]]:
        """
        Pieces that stay in the source: first items, and the ones after the last.
        """

    @property
    def cells(self) -> tuple[list[int], list[Any], list[int], list[int], list[int]]:
        """
        Layouts, shapes (None for rank 1), and piece numbers of ids or items, lengths, positions. Of keys, the last number says whether there are validity bits.
        """

    def gather(self) -> tuple[Any, list[int]]:
        """
        Plain ids of all cells of distinct ids, end to end, and the number of each.
        """

    def copy(self) -> DecodedMinibatches:
        """A copy in its own memory, except for the pieces in the source."""

class MinibatchDecoder:
    """Decodes the cells of a few minibatches in one call."""

    def __init__(self, kept_bytes: int) -> None: ...

    def decode(self, source: object, places: Annotated[NDArray[numpy.uint64], dict(shape=(None, 3), order='C', device='cpu', writable=False)], num_examples: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], columns: Annotated[NDArray[numpy.uint32], dict(shape=(None, 4), order='C', device='cpu', writable=False)], are_checked: bool, may_map: bool) -> DecodedMinibatches:
        """
        The cells at [offset, size, size in memory] of the source, minibatch by minibatch; ValueError(what, number of the cell) if one is damaged.
        """

    def close(self) -> None:
        """
        When this returns, no source is being read; a later decode raises RuntimeError.
        """

class Inputs:
    @property
    def names(self) -> list[str]: ...

    @property
    def lens(self) -> list[Any]: ...

    @property
    def shape(self) -> tuple[int, ...] | None: ...

class BagReader:
    def __init__(self, bag: type) -> None: ...

    def add(self, name: str, table: int, is_mean: bool) -> None: ...

    def read(self, inputs: dict[str, object]) -> Inputs: ...

class Lookup:
    pass

class Embedding:
    def __init__(self) -> None: ...

    def add_table(self, dim: int, seed: int, init_scale: float) -> int: ...

    def set_optimizer(self, table: int, kind: int, ttl: int) -> None: ...

    def freeze(self, table: int) -> None: ...

    def set_weights(self, table: int, ids: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], clock: int) -> None: ...

    def kind(self, table: int) -> int: ...

    def ttl(self, table: int) -> int: ...

    def dim(self, table: int) -> int: ...

    def width(self, table: int) -> int: ...

    @property
    def version(self) -> int: ...

    def lookup(self, inputs: Inputs, places: Sequence[tuple[int, int]], clock: int, is_training: bool, threads: int) -> Lookup: ...

    def lookup_columns(self, inputs: Inputs, place: tuple[int, int], clock: int, is_training: bool, threads: int) -> Lookup: ...

    def update(self, pending: Sequence[tuple[Lookup, Sequence[tuple[int, int] | None], int]], step: tuple[int, float, float, float, float, float, float, float, float, float], threads: int) -> None: ...

    def prefetch(self, inputs: Inputs) -> None: ...

    def sweep(self, clock: int, first_shard: int, last_shard: int, threads: int) -> int: ...

    def counters(self, table: int) -> dict[str, int]: ...

    def count_ages(self, table: int, clock: int, counts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def count_live(self, clock: int, threads: int) -> list[int]: ...

    def count_shard(self, table: int, shard: int, clock: int) -> int: ...

    def get(self, table: int, ids: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')], stamps: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')], found: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Listing:
    def __init__(self, embedding: Embedding, table: int, shard: int, clock: int, sorted: bool) -> None: ...

    def __len__(self) -> int: ...

    def ids(self, start: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def stamps(self, start: int, out: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

    def rows(self, start: int, out: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu')]) -> None: ...

class Loading:
    def __init__(self, embedding: Embedding, table: int, kind: int, num_rows: int) -> None: ...

    def insert(self, shard: int, ids: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], stamps: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], rows: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None: ...

    def finish(self, embedding: Embedding, table: int, counters: Sequence[int]) -> None: ...

HASH_SHARDS: int = 8

HASH_NEVER: int = 4294967295

def list_files(root: bytes) -> tuple[bytes, object, object, list[bytes]]:
    """
    Names end to end, their ends, four stamps per file, and the names of what is neither file nor folder.
    """

def hash_bytes(data: object | None, seed: int) -> int:
    """XXH64 of one contiguous bytes-like object."""

def hash_integers(values: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of the eight little-endian bytes of each value."""

@overload
def hash_strings(offsets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of each string of an Arrow array."""

@overload
def hash_strings(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, seed: int, out: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu')]) -> None:
    """XXH64 of each string of an Arrow array with large offsets."""

class Hasher:
    """XXH64 of all bytes passed to update; any thread may call it."""

    def __init__(self, seed: int) -> None: ...

    def update(self, data: object | None) -> None: ...

    def digest(self) -> int: ...

def map_file(descriptor: int, size: int, name: bytes) -> NDArray[numpy.uint8]:
    """
    The bytes of a file, private and writable. If another process cuts it, this one says so before it ends.
    """

@overload
def tokenize(offsets: Annotated[NDArray[numpy.int32], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, is_null: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], words: int, ngrams: int, lower: bool, list_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]:
    """
    Hashes of the words and n-grams of each text of an Arrow array, end to end.
    """

@overload
def tokenize(offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], data: object | None, is_null: Annotated[NDArray[numpy.bool_], dict(shape=(None,), order='C', device='cpu', writable=False)], words: int, ngrams: int, lower: bool, list_offsets: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')]) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]:
    """Hashes of the words and n-grams of each text, with large offsets."""
