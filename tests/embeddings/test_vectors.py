"""Files of vectors: what is read, what is refused, and that an export is read back."""

import contextlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samovar.embeddings.vectors import as_ids, read_vectors, vectors_source, write_vectors
from samovar.errors import BadInput

IDS = np.array([3, 1, 2**64 - 1], np.uint64)
VECTORS = np.array([[1, 2], [3, 4], [5, 6]], np.float32)


def read(path: Path, dim: int = 2) -> tuple[list[int], list[list[float]]]:
    pieces = list(read_vectors(path, dim))
    return [each for ids, _ in pieces for each in ids.tolist()], [each for _, v in pieces for each in v.tolist()]


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    pieces = [(IDS[:2], VECTORS[:2]), (IDS[2:], VECTORS[2:])]
    assert write_vectors(tmp_path / "v.parquet", iter(pieces), 2) == 3
    assert read(tmp_path / "v.parquet") == (IDS.tolist(), VECTORS.tolist())


@pytest.mark.parametrize("kind", [pa.list_(pa.float64()), pa.large_list(pa.float32()), pa.list_(pa.int64(), 2)])
def test_lists_of_any_kind_are_vectors(tmp_path: Path, kind: Any) -> None:
    vectors = pa.array(VECTORS.astype(int).tolist(), kind)
    pq.write_table(pa.table({"other": [0] * 3, "id": pa.array([3, 1, -1]), "vector": vectors}), tmp_path / "v.parquet")
    assert read(tmp_path / "v.parquet") == (IDS.tolist(), VECTORS.tolist())


def test_strings_and_npz_work_too(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a", "b"], "vector": VECTORS[:2].tolist()}), tmp_path / "v.parquet")
    assert read(tmp_path / "v.parquet") == (as_ids(["a", "b"]).tolist(), VECTORS[:2].tolist())
    np.savez(tmp_path / "v.npz", ids=IDS, vectors=VECTORS.astype(np.float64))
    assert read(tmp_path / "v.npz") == (IDS.tolist(), VECTORS.tolist())


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"id": [1]}, "no column 'vector'. Available: id"),
        ({"id": [1, 1], "vector": [[1.0, 2.0]] * 2}, "ids must be unique, got 1 more than once"),
        ({"id": [1, None], "vector": [[1.0, 2.0]] * 2}, "1 ids are missing"),
        ({"id": [1, 2], "vector": [[1.0, 2.0], [1.0]]}, "must have length 2, got one of length 1 in row 1"),
        ({"id": [1, 2], "vector": [[1.0, 2.0], None]}, "must have length 2, got none in row 1"),
        ({"id": [1], "vector": [[1.0, None]]}, "1 components of vectors are missing"),
        ({"id": [1], "vector": [1.0]}, "must hold lists of numbers, got double"),
        ({"id": [1.5], "vector": [[1.0, 2.0]]}, "64-bit integers or of strings, got float64"),
    ],
)
def test_a_table_that_cannot_be_vectors_is_refused(tmp_path: Path, columns: Any, message: str) -> None:
    pq.write_table(pa.table(columns), tmp_path / "v.parquet")
    with pytest.raises(BadInput, match=message):
        read(tmp_path / "v.parquet")


def test_other_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "v.parquet").write_bytes(b"no")
    (tmp_path / "bad.npz").write_bytes(b"no")
    np.savez(tmp_path / "objects.npz", ids=np.array([{}], object), vectors=VECTORS)
    np.savez(tmp_path / "names.npz", ids=IDS)
    for name, message in {
        "v.parquet": "cannot be read",
        "bad.npz": "cannot be read",
        "objects.npz": "ids must be numbers or strings, got object",
        "names.npz": "no array 'vectors'. Available: ids",
        "v.pkl": "vectors are read from .parquet or .npz files, got '.pkl'",
        "absent.parquet": "cannot be read",
    }.items():
        with pytest.raises(BadInput, match=message):
            read(tmp_path / name)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.npz")
    (tmp_path / "zero.parquet").symlink_to("/dev/zero")
    (tmp_path / "folder.npz").mkdir()
    for name in ("pipe.npz", "zero.parquet", "folder.npz"):
        with pytest.raises(BadInput, match="cannot be read: not a regular file"):
            read(tmp_path / name)
        with pytest.raises(BadInput, match="cannot be read: not a regular file"):
            vectors_source("pretrained.x", str(tmp_path / name))


def npy(shape: str, data: bytes = b"", dtype: str = "<f4") -> bytes:
    """An .npy file, whatever its header says."""
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def write_npz(path: Path, vectors: bytes, compression: int = zipfile.ZIP_STORED) -> None:
    ids = io.BytesIO()
    np.save(ids, IDS)
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("ids.npy", ids.getvalue())
        archive.writestr("vectors.npy", vectors)


@pytest.mark.parametrize(
    ("vectors", "message"),
    [
        (npy("(3, 2)", bytes(20)), "vectors claims 24 bytes, and has 20"),
        (npy("(137438953472,)"), "vectors claims 549,755,813,888 bytes, and has 0"),
        (npy("(-3, -2)", bytes(24)), "cannot be read: vectors claims"),
        (npy("(3, 2)", bytes(24), "|O"), "vectors must be numbers, got object"),
        (npy("(3, 2", bytes(24)), r"not an npz file, or damaged \(\w+\)$"),
        (npy("(3L, 2L) (", bytes(24)), r"not an npz file, or damaged \(\w+\)$"),
        (b"garbage", r"not an npz file, or damaged \(\w+\)$"),
    ],
)
def test_an_array_that_is_not_what_it_claims_is_refused(tmp_path: Path, vectors: bytes, message: str) -> None:
    write_npz(tmp_path / "v.npz", vectors)
    with pytest.raises(BadInput, match=message) as caught:
        read(tmp_path / "v.npz")
    assert "pickle" not in str(caught.value)


def test_a_small_file_that_unfolds_to_a_gigabyte_is_refused(tmp_path: Path) -> None:
    small = npy("(3, 2)", bytes(24))
    write_npz(tmp_path / "v.npz", small)
    data = (tmp_path / "v.npz").read_bytes()
    claimed = len(small).to_bytes(4, "little") * 2
    assert data.count(claimed) == 2  # both sizes, before the entry and in the directory
    (tmp_path / "v.npz").write_bytes(data.replace(claimed, claimed[:4] + (1 << 30).to_bytes(4, "little")))
    with pytest.raises(
        BadInput, match=r"claims 1,073,741,824 bytes of ids and vectors, which [0-9]+ bytes cannot hold"
    ):
        read(tmp_path / "v.npz")
    zeros = pa.array(np.zeros(1 << 25, np.float32))
    vectors = pa.FixedSizeListArray.from_arrays(zeros, 1 << 24)
    pq.write_table(pa.table({"id": [1, 2], "vector": vectors}), tmp_path / "v.parquet", compression="zstd")
    with pytest.raises(BadInput, match=r"claims 134,217,7.. bytes of ids and vectors"):
        read(tmp_path / "v.parquet", 1 << 24)


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_every_damaged_byte_of_an_archive_is_read_or_refused(tmp_path: Path, method: int) -> None:
    write_npz(tmp_path / "v.npz", npy("(3, 2)", VECTORS.tobytes()), method)
    assert read(tmp_path / "v.npz") == (IDS.tolist(), VECTORS.tolist())
    data = (tmp_path / "v.npz").read_bytes()
    for place in range(len(data)):
        for change in (0x01, 0xFF):
            damaged = bytearray(data)
            damaged[place] ^= change
            (tmp_path / "v.npz").write_bytes(damaged)
            with contextlib.suppress(BadInput):
                read(tmp_path / "v.npz")


def test_one_array_is_no_archive(tmp_path: Path) -> None:
    np.save(tmp_path / "v.npy", VECTORS)
    (tmp_path / "v.npy").rename(tmp_path / "v.npz")
    with pytest.raises(BadInput, match=r"is one array, an \.npy file; save both with"):
        read(tmp_path / "v.npz")
