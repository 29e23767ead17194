"""Types of text files, and files that cannot be read."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.brewing import formats
from samovar.brewing.columns import Factors, find_converters
from samovar.brewing.formats import read_in_order, scan_schema
from samovar.brewing.order import FILE, ROW
from samovar.brewing.sources import find_source, fingerprint
from samovar.errors import BadInput, UnknownColumn


def read_all(source: Any, **options: Any) -> tuple[dict[str, str], list[dict[str, Any]]]:
    found = find_source(source, **options)
    schema = scan_schema(found)
    rows = [row for batch in read_in_order(found, schema, schema.names) for row in batch.to_pylist()]
    for row in rows:
        del row[FILE], row[ROW]
    return {field.name: str(field.type) for field in schema}, rows


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "", "-3"], "int64", [1, None, -3]),
        (["1", "18446744073709551615"], "uint64", [1, 2**64 - 1]),
        (["-1", "18446744073709551615"], "double", [-1.0, 2.0**64]),
        (["1", "2.5", "nan"], "double", [1.0, 2.5, float("nan")]),
        (["true", "False", ""], "bool", [True, False, None]),
        (["1", "true"], "string", ["1", "true"]),
        (["2021-01-01", "NA"], "string", ["2021-01-01", "NA"]),
        (["1", "x"], "string", ["1", "x"]),
        (["", ""], "null", [None, None]),
        (['"a,b\nc"', '""'], "string", ["a,b\nc", ""]),
    ],
)
def test_a_csv_column_has_the_narrowest_type_that_holds_all_its_values(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, cells: list[str], kind: str, values: list[Any]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("n,x\n" + "".join(f"1,{cell}\n" for cell in cells))
    for block_bytes in (1 << 20, 32):  # also when each value comes in a block of its own
        monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
        kinds, rows = read_all(path)
        assert kinds == {"n": "int64", "x": kind}
        assert repr([row["x"] for row in rows]) == repr(values)


def test_a_csv_column_of_texts_stays_text_though_it_looks_like_numbers(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("x\n007\n8\n")
    assert read_all(tmp_path / "rows.csv", text_columns=["x"]) == ({"x": "string"}, [{"x": "007"}, {"x": "8"}])


@pytest.mark.parametrize("delimiter", [",", "\t", ";", "|"])
def test_the_delimiter_is_found(tmp_path: Path, delimiter: str) -> None:
    (tmp_path / "rows.csv").write_text(f"a{delimiter}b\n1{delimiter}2\n")
    assert read_all(tmp_path / "rows.csv")[1] == [{"a": 1, "b": 2}]


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
        monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
        kinds, rows = read_all(path)
        assert kinds == {"x": kind}
        assert [row["x"] for row in rows] == [float(v) if kind == "double" and v is not None else v for v in values]


def test_json_columns_of_two_kinds_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"x": 1}\n{"x": "a"}\n')
    with pytest.raises(BadInput, match=r"rows.jsonl: cannot be read as json \(.*changed from number to string"):
        read_all(path)
    monkeypatch.setattr(formats, "_BLOCK_BYTES", 8)
    with pytest.raises(BadInput, match=r"column 'x': found int64 in some rows and string in others; expected one type"):
        read_all(path)


def test_layouts_of_one_type_are_the_same_type(tmp_path: Path) -> None:
    table = pa.table(
        {
            "word": pa.array(["a", "b", "a"]).dictionary_encode(),
            "large": pa.array(["a", None, "c"], pa.large_string()),
            "fixed": pa.array([[1, 2], None, [3, 4]], pa.list_(pa.int32(), 2)),
            "lists": pa.array([[1], [], None], pa.large_list(pa.uint8())),
        }
    )
    parquet.write_table(table, tmp_path / "1.parquet")
    feather.write_feather(table, str(tmp_path / "2.arrow"))
    kinds, rows = read_all(str(tmp_path / "*"))
    assert kinds == {"word": "string", "large": "string", "fixed": "list<item: int32>", "lists": "list<item: uint8>"}
    assert rows == table.to_pylist() * 2


def test_a_stream_of_arrow_batches_is_read_too(tmp_path: Path) -> None:
    with (
        pa.OSFile(str(tmp_path / "rows.arrow"), "wb") as file,
        pa.ipc.new_stream(file, pa.schema({"x": pa.int8()})) as out,
    ):
        out.write_batch(pa.record_batch({"x": pa.array([1, None], pa.int8())}))
    assert read_all(tmp_path / "rows.arrow") == ({"x": "int8"}, [{"x": 1}, {"x": None}])


def test_numbers_of_several_files_take_the_widest_type(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": pa.array([1], pa.int8()), "only": [1]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"x": pa.array([2], pa.int64())}), tmp_path / "2.parquet")
    assert read_all(str(tmp_path / "*")) == ({"x": "int64"}, [{"x": 1}, {"x": 2}])
    parquet.write_table(pa.table({"x": pa.array([2], pa.uint64())}), tmp_path / "3.parquet")
    with pytest.raises(BadInput, match=r"column 'x' is int64 in .*2.parquet and uint64 in .*3.parquet; expected one"):
        read_all(str(tmp_path / "*"))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv", "rows.jsonl"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'{"a": 1,\n"a"' if name.endswith("jsonl") else b"")
    with pytest.raises(BadInput, match=rf"{name}: cannot be read as \w+ \("):
        read_all(tmp_path / name)


@pytest.mark.parametrize("name", ["rows.csv", "rows.csv.gz"])
@pytest.mark.parametrize(
    "rows",
    [
        '1,a\n2,"oops\n3,b\n4,c\n',
        '1,a\n2,"oops\r\n3,b\r\n4,c',
        '1,a\n2,"oops\n3,""\n4,""b""\n',
    ],
)
def test_a_quote_that_is_never_closed_is_refused(tmp_path: Path, name: str, rows: str) -> None:
    with pa.output_stream(str(tmp_path / name)) as out:
        out.write(f"n,x\n{rows}".encode())
    with pytest.raises(BadInput, match=rf"{name}: row 1 opens a quote that is never closed, so that 2 more lines"):
        read_all(tmp_path / name)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("text", ["a\nb", 'a"b\n', '"\n', "\n", "\n\n", 'a,"\n"', '\n"\n"'])
def test_a_text_of_several_lines_at_the_end_is_a_text(tmp_path: Path, text: str, end: str) -> None:
    escaped = text.replace('"', '""')
    (tmp_path / "rows.csv").write_bytes(f'n,x\n1,"{escaped}"{end}'.encode())
    assert read_all(tmp_path / "rows.csv")[1] == [{"n": 1, "x": text}]
    (tmp_path / "rows.csv").write_bytes(f'x\n"{escaped}"{end}'.encode())
    assert read_all(tmp_path / "rows.csv")[1] == [{"x": text}]


def test_line_breaks_in_values_are_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{number},word" for number in range(50)]
    (tmp_path / "rows.csv").write_text("n,x\n" + "\n".join(rows) + "\n")
    notes: list[str] = []
    scan_schema(find_source(tmp_path / "rows.csv"), notes)
    assert notes == []
    rows[7], rows[20], rows[30] = '7,"oops', '20,oops"', '30,"two\nlines"'  # swallows twelve rows
    (tmp_path / "rows.csv").write_text("n,x\n" + "\n".join(rows) + "\n")
    for block_bytes in (1 << 20, 200):
        monkeypatch.setattr(formats, "_BLOCK_BYTES", block_bytes)
        notes = []
        scan_schema(find_source(tmp_path / "rows.csv"), notes)
        assert [note.partition("rows.csv: ")[2].partition(";")[0] for note in notes] == [
            "values with line breaks: 2, the longest, of 14 lines, in row 7, column 'x'"
        ]


def test_json_files_without_lines_have_no_say_in_the_columns(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text("")
    (tmp_path / "b.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "c.jsonl").write_text("\n \n")
    assert read_all(str(tmp_path / "*")) == ({"x": "int64"}, [{"x": 1}])
    with pytest.raises(BadInput, match=r"a.jsonl: no rows, or none"):
        read_all(tmp_path / "a.jsonl")


@pytest.mark.parametrize(
    ("name", "data"),
    [("rows.csv", b"a,\xff\n1,2\n"), ("rows.jsonl", b'{"a": "\xff"}\n'), ("rows.jsonl", b'{"\xff": 1}\n')],
)
def test_what_is_not_utf8_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=rf"{name}: cannot be read as \w+ \('utf-8' codec .*\): expected UTF-8: convert"):
        read_all(tmp_path / name)


@pytest.mark.parametrize("doubled", ["1.csv", "2.csv", "2.parquet"])
def test_a_name_that_stands_twice_is_refused_where_it_is_used(tmp_path: Path, doubled: str) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    if doubled.endswith("csv"):
        (tmp_path / doubled).write_text("a,b,a\n1,2,3\n")
    else:
        parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "b", "a"]), tmp_path / doubled)
    source = find_source(str(tmp_path / "*"))
    schema = scan_schema(source)
    assert find_converters(schema, Factors(categorical_factors=["b"]), "here")
    assert [row["b"] for batch in read_in_order(source, schema, ["b"]) for row in batch.to_pylist()][:1] == [2]
    with pytest.raises(BadInput, match=r"here: has two columns 'a' in one file; expected one: rename or remove"):
        find_converters(schema, Factors(categorical_factors=["a"]), "here")


def test_a_file_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    source = find_source(tmp_path / "a.csv")
    with pytest.raises(UnknownColumn, match=r"a.csv: no column 'y'; it has x"):
        list(read_in_order(source, pa.schema({"y": pa.int64()}), ["y"]))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("none.csv", r"source: none.csv: no such file in .*: check the path or the glob"),
        (".", r"source: .: is a folder, expected a file or a glob: name its files"),
        ("rows.xlsx", r"rows.xlsx: unknown kind of file, expected one of .parquet,"),
        ([], r"source: names no file"),
        ("", r"source: names no file, expected one or more paths"),
    ],
)
def test_a_source_that_is_none_is_refused(tmp_path: Path, pattern: Any, message: str) -> None:
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(BadInput, match=message):
        find_source(pattern, tmp_path)


def test_files_are_sorted_by_path_and_named_once(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "a.tsv.gz"):
        (tmp_path / name).touch()
    source = find_source(["*.csv", "b.csv", "a.tsv.gz"], tmp_path)
    assert [file.path.name for file in source.files] == ["a.csv", "a.tsv.gz", "b.csv"]


def test_a_fingerprint_is_of_name_and_content_and_of_no_folder(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("x\n1\n")
    first, second = (fingerprint(tmp_path / folder / "rows.csv") for folder in ("one", "two"))
    assert first == second == {"name": "rows.csv", "size_bytes": 4, "xxh64": first["xxh64"]}
    (tmp_path / "two" / "rows.csv").write_text("x\n2\n")
    assert fingerprint(tmp_path / "two" / "rows.csv") != first
