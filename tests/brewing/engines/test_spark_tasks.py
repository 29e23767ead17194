"""Errors of Spark's tasks. The cluster itself is tested in `tests/brewing/spark`."""

import base64
import json
import pickle
import traceback
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pyarrow as pa
import pytest

from samovar import errors
from samovar.brewing.engines.spark_tasks import find_error, run
from samovar.brewing.sources import WrongEncoding
from samovar.config.params import MissingKey
from samovar.errors import BadInput, SamovarError, StoreError, UnknownKey


def fail(error: Exception, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    yield from batches
    raise error


def text_of(error: Exception) -> str:
    """What Spark tells of a task that fails."""
    try:
        list(run(pickle.dumps(partial(fail, error)), iter([])))
    except Exception:
        return traceback.format_exc()
    raise AssertionError("the task did not fail")


def mark(said: bytes) -> str:
    return f"samovar-error:{base64.b64encode(said).decode()}:"


@pytest.mark.parametrize(
    ("error", "kind"),
    [(BadInput("é 'x' 1"), BadInput), (StoreError("full"), StoreError), (WrongEncoding("line 1"), BadInput),
     (MissingKey("lr"), UnknownKey), (SamovarError("so"), SamovarError)],
)  # fmt: skip
def test_an_error_of_ours_comes_back(error: SamovarError, kind: type[SamovarError]) -> None:
    found = find_error(text_of(error))
    assert (type(found), str(found)) == (kind, str(error))


def test_another_error_is_none_of_ours() -> None:
    assert find_error(text_of(ValueError("row 50"))) is None


@pytest.mark.parametrize("kind", [BadInput, ValueError])
def test_a_pickle_in_a_value_is_only_quoted(kind: type[Exception], tmp_path: Path) -> None:
    made = tmp_path / "made"
    text = text_of(kind(f"1.parquet row 50: '{mark(f'cos{chr(10)}mkdir{chr(10)}(V{made}{chr(10)}tR.'.encode())}'"))
    assert text.count("samovar-error:") >= 1
    found = find_error(text)
    assert (found is None) == (kind is ValueError)
    assert found is None or "1.parquet row 50" in str(found)
    assert not made.exists()


@pytest.mark.parametrize(
    "said",
    [b"", b"\xff", b"[]", b"1", b'["BadInput"]', b'["Any", "x"]', b'["re", "x"]', b'["hide_passwords", "x"]',
     b'["_SECRETS", "x"]', b'[["BadInput"], "x"]', b'{"a": 1, "b": 2}', b"[" * 100_000],
)  # fmt: skip
def test_what_only_looks_like_an_error_is_passed_over(said: bytes) -> None:
    assert find_error(mark(said)) is None
    assert str(find_error(mark(json.dumps(["BadInput", "real"]).encode()) + mark(said))) == "real"


def test_every_error_can_be_made_from_its_message() -> None:
    for kind in vars(errors).values():
        if isinstance(kind, type) and issubclass(kind, SamovarError):
            assert str(kind("x")) == "x"
