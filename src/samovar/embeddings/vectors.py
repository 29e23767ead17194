"""Ids with their vectors: checked arrays, and the files that hold them. Knows no tables. Needs no torch.

.parquet   columns `id` (integers, or strings that are hashed as in brewing) and `vector` (lists of one length)
.npz       arrays `ids` [N] and `vectors` [N, dim]
"""

import hashlib
import lzma
import math
import os
import tokenize
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, NDArray

from samovar.config.places import suggest_path
from samovar.config.records import open_regular
from samovar.errors import BadInput
from samovar.native import hash_array
from samovar.results import Source
from samovar.store.reports import writing

Ids = NDArray[np.uint64]
Vectors = NDArray[np.float32]
ID, VECTOR = "id", "vector"
SUFFIXES = (".parquet", ".npz")
_ROWS_PER_PIECE = 1 << 16
_MOST_TIMES = 100
"""The largest ratio of arrays to the file that compresses them; vectors that differ do not come near."""
_FREE_BYTES = 64 << 20
_UNREADABLE = (
    OSError, ValueError, TypeError, LookupError, ArithmeticError, RuntimeError, MemoryError, SyntaxError, EOFError,
    pa.ArrowException, zipfile.BadZipFile, zlib.error, lzma.LZMAError, tokenize.TokenError,
)  # fmt: skip
"""What Arrow, zipfile and numpy's parser raise for damaged files."""


def as_ids(ids: ArrayLike) -> Ids:
    """The 64 bits of integers, signed or unsigned; strings are hashed as those of a hashed column.

    Raises:
        BadInput: They are neither.
    """
    if isinstance(ids, list) and ids and all(type(each) is int and -(2**63) <= each < 2**64 for each in ids):
        return np.array([each % 2**64 for each in ids], np.uint64)  # of small and large ones numpy makes floats
    found = np.asarray(ids)
    if found.size == 0:
        return np.zeros(0, np.uint64)
    if found.dtype.kind in "UO" and all(isinstance(each, str) for each in found.reshape(-1).tolist()):
        return np.asarray(hash_array(pa.array(found.tolist(), pa.string())))
    if found.ndim != 1 or found.dtype.kind not in "iu":
        raise BadInput(
            f"ids must be a list of 64-bit integers or of strings, got {found.dtype} of shape {list(found.shape)}"
        )
    return found.astype(np.int64).view(np.uint64) if found.dtype.kind == "i" else found.astype(np.uint64)


def check_unique(ids: Ids, where: str) -> None:
    """Raise BadInput that names an id which occurs twice."""
    ordered = np.sort(ids)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    if len(repeated):
        raise BadInput(f"{where}: ids must be unique, got {repeated[0]} more than once")


def check_vectors(vectors: ArrayLike, num_ids: int, dim: int, where: str) -> Vectors:
    """The vectors as float32 [N, dim]; BadInput if their shape is another, or one of them is not finite."""
    found = np.asarray(vectors)
    if found.shape != (num_ids, dim) or found.dtype.kind not in "fiu":
        raise BadInput(
            f"{where}: vectors must be numbers of shape {[num_ids, dim]}, got {found.dtype} of shape "
            f"{list(found.shape)}"
        )
    plain = np.ascontiguousarray(found, np.float32)
    is_finite = np.isfinite(plain).all(1)
    if not is_finite.all():
        raise BadInput(f"{where}: the vector in row {int(np.argmin(is_finite))} is not finite")
    return plain


def read_vectors(path: Path, dim: int) -> Iterator[tuple[Ids, Vectors]]:
    """The ids and vectors of a file, in pieces. All ids are checked before the first piece.

    Raises:
        BadInput: The file cannot be read, has no such columns or arrays, vectors of another length, or an id twice.
    """
    if path.suffix not in SUFFIXES:
        raise BadInput(
            f"{path}: vectors are read from {' or '.join(SUFFIXES)} files, got {path.suffix or 'no suffix'!r}"
        )
    try:
        with open_regular(path) as file:
            yield from _read_parquet(file, path, dim) if path.suffix == ".parquet" else _read_npz(file, path, dim)
    except BadInput:
        raise
    except OSError as error:
        raise BadInput(f"{path}: cannot be read: {error.strerror or error}") from error
    except _UNREADABLE as error:
        kind = "a Parquet" if path.suffix == ".parquet" else "an npz"
        raise BadInput(f"{path}: cannot be read: not {kind} file, or damaged ({type(error).__name__})") from error


def _check_claim(num_bytes: int, file: BinaryIO, path: Path) -> None:
    """Refuse a small file that claims much, before there is memory for it."""
    size = os.fstat(file.fileno()).st_size
    if num_bytes > _FREE_BYTES + _MOST_TIMES * size:
        raise BadInput(f"{path}: claims {num_bytes:,} bytes of ids and vectors, which {size:,} bytes cannot hold")


def _read_parquet(opened: BinaryIO, path: Path, dim: int) -> Iterator[tuple[Ids, Vectors]]:
    with pq.ParquetFile(opened) as file:
        groups = [file.metadata.row_group(number) for number in range(file.metadata.num_row_groups)]
        chunks = (group.column(number) for group in groups for number in range(group.num_columns))
        claimed = sum(each.num_values * 4 for each in chunks if each.path_in_schema.split(".")[0] in (ID, VECTOR))
        _check_claim(claimed, opened, path)
        names = file.schema_arrow.names
        for name in (ID, VECTOR):
            if name not in names:
                raise BadInput(f"{path}: no column {name!r}. Available: {', '.join(names)}")
        check_unique(_ids_of(file.read([ID]).column(ID).combine_chunks(), path), str(path))
        for batch in file.iter_batches(_ROWS_PER_PIECE, columns=[ID, VECTOR]):
            yield _ids_of(batch.column(ID), path), _vectors_of(batch.column(VECTOR), dim, path)


def _ids_of(column: pa.Array, path: Path) -> Ids:
    if column.null_count:
        raise BadInput(f"{path}: {column.null_count} ids are missing")
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
    return as_ids(column.to_numpy(zero_copy_only=False))


def _vectors_of(column: pa.Array, dim: int, path: Path) -> Vectors:
    kind = column.type
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)):
        raise BadInput(f"{path}: the column {VECTOR!r} must hold lists of numbers, got {kind}")
    lengths = pa.compute.list_value_length(column).fill_null(-1).to_numpy(zero_copy_only=False)
    if (lengths != dim).any():
        odd = int(np.argmax(lengths != dim))
        shown = "none" if lengths[odd] < 0 else f"one of length {lengths[odd]}"
        raise BadInput(f"{path}: every vector must have length {dim}, got {shown} in row {odd}")
    values = column.flatten()
    if values.null_count:
        raise BadInput(f"{path}: {values.null_count} components of vectors are missing")
    return check_vectors(values.to_numpy(zero_copy_only=False).reshape(-1, dim), len(column), dim, str(path))


def _read_npz(file: BinaryIO, path: Path, dim: int) -> Iterator[tuple[Ids, Vectors]]:
    if file.read(6) == b"\x93NUMPY":
        raise BadInput(f"{path}: is one array, an .npy file; save both with np.savez(path, ids=ids, vectors=vectors)")
    with zipfile.ZipFile(file) as archive:
        names = [each.removesuffix(".npy") for each in archive.namelist()]
        for name in ("ids", "vectors"):
            if name not in names:
                raise BadInput(f"{path}: no array {name!r}. Available: {', '.join(names)}")
        for name in ("ids", "vectors"):
            _check_array(archive, name, file, path)
        ids = as_ids(_load_array(archive, "ids"))
        check_unique(ids, str(path))
        yield ids, check_vectors(_load_array(archive, "vectors"), len(ids), dim, str(path))


def _check_array(archive: zipfile.ZipFile, name: str, file: BinaryIO, path: Path) -> None:
    """Compare what the header of an array claims with its entry, and the entry with the file, before any is read."""
    entry = archive.getinfo(f"{name}.npy")
    _check_claim(entry.file_size, file, path)
    with archive.open(entry) as member:
        version = np.lib.format.read_magic(member)
        read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(member)
        if dtype.kind not in "iufU":
            raise BadInput(f"{path}: {name} must be numbers{' or strings' if name == 'ids' else ''}, got {dtype}")
        expected = math.prod(shape) * dtype.itemsize
        if min(shape, default=0) < 0 or expected != entry.file_size - member.tell():
            raise BadInput(
                f"{path}: cannot be read: {name} claims {expected:,} bytes, and has {entry.file_size - member.tell():,}"
            )


def _load_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(f"{name}.npy") as member:
        found: NDArray[Any] = np.lib.format.read_array(member, allow_pickle=False)
        return found


def write_vectors(path: Path, pieces: Iterator[tuple[Ids, Vectors]], dim: int) -> int:
    """Write a new Parquet file that `read_vectors` reads; returns the number of ids. BadInput if it cannot be
    written."""
    if path.suffix != ".parquet":
        raise BadInput(f"{path}: vectors are written as Parquet. Give the file the suffix .parquet")
    with writing(path, replace=False) as scratch:
        return _write_parquet(scratch, pieces, dim)


def _write_parquet(path: Path, pieces: Iterator[tuple[Ids, Vectors]], dim: int) -> int:
    schema = pa.schema([(ID, pa.uint64()), (VECTOR, pa.list_(pa.float32(), dim))])
    count = 0
    with pq.ParquetWriter(path, schema) as writer:
        for ids, vectors in pieces:
            flat = pa.array(np.ascontiguousarray(vectors, np.float32).reshape(-1))
            column = pa.FixedSizeListArray.from_arrays(flat, dim)
            writer.write_batch(pa.record_batch([pa.array(ids), column], schema=schema))
            count += len(ids)
    return count


def vectors_source(key: str, path: str) -> Source:
    """The link to a file of vectors, which counts by its content."""
    try:
        with open_regular(Path(path)) as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadInput(f"{key}: {path} cannot be read: {error.strerror}{suggest_path(Path(path))}") from None
    return Source(key, path, found[:32], is_raw=True, content={"files": {Path(path).name: found}})
