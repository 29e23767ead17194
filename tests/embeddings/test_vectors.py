"""Files of vectors: what is read, what is refused, and that an export is read back."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from samovar.embeddings.vectors import as_ids, read_vectors, write_vectors
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
        "objects.npz": "cannot be read: Object arrays cannot be loaded",
        "names.npz": "no array 'vectors'. Available: ids",
        "v.pkl": "vectors are read from .parquet or .npz files, got '.pkl'",
        "absent.parquet": "cannot be read",
    }.items():
        with pytest.raises(BadInput, match=message):
            read(tmp_path / name)
