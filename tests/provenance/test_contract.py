"""`compare` names the first place where two results differ."""

import io

import numpy as np
import pytest

from samovar.provenance.contract import compare
from samovar.results.arrays import as_array, write_arrays


def arrays(**values: np.ndarray) -> bytes:
    file = io.BytesIO()
    stored = {name: as_array(value) for name, value in values.items()}
    write_arrays(file, {name: array for name, array in stored.items() if array is not None})
    return file.getvalue()


WEIGHTS = np.arange(4, dtype=np.float32)


@pytest.mark.parametrize(
    ("path", "old", "new", "expected"),
    [
        ("a.jsonl", b"1\n2\n3\n", b"1\n2\n4\n", "differs in line 3: 3 → 4"),
        ("a.txt", b"1\n", b"1\n2\n", "differs in line 2: nothing → 2"),
        ("a.txt", b"1\n", b"1", "differs from byte 1 on"),
        ("a.bin", b"\xff\x00\x01", b"\xff\x00\x02", "differs from byte 2 on"),
        ("a.bin", b"\xff\x00", b"\xff\x00\x02", "differs from byte 2 on"),
        ("events", [("loss", 0, 0.5)], [("loss", 0, 0.25)], "differs in value 1: ('loss', 0, 0.5) → ('loss', 0, 0.25)"),
        (
            "model/arrays.safetensors",
            arrays(bias=WEIGHTS, top=WEIGHTS),
            arrays(bias=WEIGHTS, top=np.array([0, 1, 7, 3], np.float32)),
            "differs in the array top, from its byte 10 on",
        ),
    ],
)
def test_the_first_difference_is_named(path: str, old: object, new: object, expected: str) -> None:
    assert compare({path: old}, {path: new}) == [f"{path}: {expected}"]
    assert compare({path: old}, {path: old}) == []


def test_long_lines_are_shown_where_they_differ() -> None:
    old, new = b"x" * 500 + b"1" + b"y" * 500, b"x" * 500 + b"2" + b"y" * 500
    (line,) = compare({"a": old}, {"a": new})
    assert "x1y" in line
    assert "x2y" in line
    assert len(line) < 400


def test_missing_and_new_files_are_named() -> None:
    assert compare({"a": b""}, {"b": b""}) == ["a: is missing", "b: should not be there"]
