"""JSON lines: types across blocks, and files without lines."""

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from samovar.brewing.formats import json as json_format
from samovar.errors import BadInput
from samovar.testing.format import FormatContract, Write, read_all


class TestJsonFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            lines = [json.dumps(row) + "\n" for row in table.to_pylist()]
            (tmp_path / "rows.jsonl").write_text("".join(lines))
            return tmp_path / "rows.jsonl"

        return write


class TestCompressedJsonFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            lines = [json.dumps(row) + "\n" for row in table.to_pylist()]
            with pa.output_stream(str(tmp_path / "rows.jsonl.zst"), compression="zstd") as file:
                file.write("".join(lines).encode())
            return tmp_path / "rows.jsonl.zst"

        return write


class TestJsonArrayFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            (tmp_path / "rows.json").write_text(json.dumps(table.to_pylist(), indent=2))
            return tmp_path / "rows.json"

        return write


IDS = st.none() | st.integers(0, 2**64 - 1)
JSON_ROWS = st.lists(
    st.fixed_dictionaries(
        {"id": IDS, "ids": st.none() | st.lists(IDS, max_size=3), "word": st.none() | st.text("aя1-")}
    ),
    min_size=1,
    max_size=12,
)


@given(JSON_ROWS)
def test_json_lines_come_back_as_they_are(tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]]) -> None:
    path = tmp_path_factory.mktemp("json") / "rows.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in rows))
    assert read_all(path)[1] == rows


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, 2**64 - 1], "uint64"),
        ([[1], [2**64 - 1]], "list<item: uint64>"),
        ([[[1]], [[]], None], "list<item: list<item: int64>>"),
        ([1, 2.5], "double"),
        ([-1, 2**64 - 1], "double"),
        ([[], [None], [1.5]], "list<item: double>"),
        (["2021-01-01T00:00:00", "x"], "string"),
        ([True, None], "bool"),
        ([None, None], "null"),
    ],
)
def test_a_json_column_has_one_type_however_the_file_is_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: list[Any], kind: str
) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"x": value}) + "\n" for value in values))
    for block_bytes in (1 << 20, 8):
        monkeypatch.setattr(json_format, "_BLOCK_BYTES", block_bytes)
        kinds, rows = read_all(path)
        assert kinds == {"x": kind}
        assert [row["x"] for row in rows] == [float(v) if kind == "double" and v is not None else v for v in values]


def test_json_columns_of_two_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n{"x": "a"}\n')
    with pytest.raises(BadInput, match=r"rows.jsonl: cannot be read as json \(.*changed from number to string"):
        read_all(path)
    monkeypatch.setattr(json_format, "_BLOCK_BYTES", 8)
    with pytest.raises(BadInput, match=r"column 'x' is int64 in some rows and string in others"):
        read_all(path)


def test_files_without_lines_do_not_affect_the_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "c.jsonl").write_text("\n \n")
    assert read_all(str(tmp_path / "*")) == ({"x": "int64"}, [{"x": 1}])
    with pytest.raises(BadInput, match=r"a.jsonl: no rows, or none"):
        read_all(tmp_path / "a.jsonl")


@settings(max_examples=50)
@given(
    rows=st.lists(
        st.fixed_dictionaries({"text": st.text('ab"\\\\[]{},я\\n'), "lists": st.lists(st.lists(st.integers()))})
    ),
    indent=st.none() | st.integers(0, 3),
    block_bytes=st.integers(1, 60),
)
def test_an_array_is_split_at_its_objects_wherever_blocks_end(
    tmp_path_factory: pytest.TempPathFactory, rows: list[dict[str, Any]], indent: int | None, block_bytes: int
) -> None:
    path = tmp_path_factory.mktemp("json") / "rows.json"
    path.write_text("\n " + json.dumps(rows, indent=indent, ensure_ascii=False) + "\n")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_format, "_BLOCK_BYTES", block_bytes)
        blocks = [bytes(block) for block in json_format._blocks(path, pa.input_stream(str(path)))]
    assert [json.loads(line) for line in b"".join(blocks).splitlines()] == rows


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1, 2]", "row 0: expected an object"),
        ('[{"x": 1}, 2]', "row 1: expected an object"),
        ('["x"]', "row 0: expected an object"),
        ('[[{"x": 1}]]', "row 0: expected an object"),
        ('[{"x": 1},, {"x": 2}]', "row 1: expected an object"),
        ('[{"x": 1}, {"x": 2}', "row 2: the array is never closed; the file may be cut off"),
        ('[{"x": 1}, {"x', "row 1: the array is never closed"),
        ('[{"x": 1}] [{"x": 2}]', "row 1: expected an object"),
        ('[{"x": 1}] and so on', "more after the array, b'and so on'"),
    ],
)
def test_an_array_that_is_damaged_is_refused_with_its_row(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "rows.json").write_text(text)
    with pytest.raises(BadInput, match=f"rows.json.*{message}"):
        read_all(tmp_path / "rows.json")


def test_an_array_may_be_compressed_and_in_another_encoding(tmp_path: Path) -> None:
    with pa.output_stream(str(tmp_path / "rows.json.gz"), compression="gzip") as file:
        file.write('[{"word": "£5"}]'.encode("latin-1"))
    assert read_all(tmp_path / "rows.json.gz", encoding="latin-1")[1] == [{"word": "£5"}]


def test_a_file_that_begins_with_null_is_refused(tmp_path: Path) -> None:
    """Arrow's reader ends the process."""
    (tmp_path / "rows.jsonl").write_text('null\n{"a": 1}\n')
    with pytest.raises(BadInput, match=r"row 0: expected an object such as .*, got null"):
        read_all(tmp_path / "rows.jsonl")


@pytest.mark.parametrize("start", ["", '{"x": 1}\n', '[{"x": 1}, {"x": 2'])
def test_a_line_that_never_ends_is_refused_before_it_fills_the_memory(tmp_path: Path, start: str) -> None:
    """As when a crash leaves a hole in a file."""
    (tmp_path / "rows.json").write_text(start)
    os.truncate(tmp_path / "rows.json", 1 << 40)  # takes no room on the disk
    with pytest.raises(BadInput, match=r"rows.json: .* is longer than 64 MiB"):
        read_all(tmp_path / "rows.json")


def test_blank_lines_before_the_first_row_are_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "_BLOCK_BYTES", 16)
    (tmp_path / "rows.json").write_text("\ufeff" + "\n " * 40 + '{"x": 1}\n')
    assert read_all(tmp_path / "rows.json")[1] == [{"x": 1}]


def test_an_object_is_measured_without_what_is_behind_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_format, "_BLOCK_BYTES", 16)
    monkeypatch.setattr(json_format, "_MAX_OBJECT_BYTES", 64)
    rows = [{"x": "a" * length} for length in (1, 53, 2, 3)]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    assert read_all(tmp_path / "rows.json")[1] == rows
    (tmp_path / "rows.json").write_text(json.dumps([{"x": "a" * 90}]))
    with pytest.raises(BadInput, match=r"row 0 of the array is longer than"):
        read_all(tmp_path / "rows.json")
