"""CSV: types, delimiters, quotes and line breaks."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow import csv

from samovar.brewing.formats import csv as csv_format
from samovar.brewing.sources import find_source, scan
from samovar.errors import BadInput
from samovar.testing.format import FormatContract, Write, read_all


class TestCsvFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            csv.write_csv(table, tmp_path / "rows.csv")
            return tmp_path / "rows.csv"

        return write


class TestCompressedCsvFormat(FormatContract):
    @pytest.fixture
    def write(self, tmp_path: Path) -> Write:
        def write(table: pa.Table) -> Path:
            with pa.output_stream(str(tmp_path / "rows.csv.gz")) as file:
                csv.write_csv(table, file)
            return tmp_path / "rows.csv.gz"

        return write


@pytest.mark.parametrize(
    ("cells", "kind", "values"),
    [
        (["1", "", "-3"], "int64", [1, None, -3]),
        (["1", "18446744073709551615"], "uint64", [1, 2**64 - 1]),
        (["-1", "18446744073709551615"], "double", [-1.0, 2.0**64]),
        (["1", "2.5", "nan"], "double", [1.0, 2.5, float("nan")]),
        (["true", "False", ""], "bool", [True, False, None]),
        (["1", "true"], "string", ["1", "true"]),
        (["1", "NA", "nil", "?"], "int64", [1, None, None, None]),
        (["-", ".", r"\N", "-2.5"], "double", [None, None, None, -2.5]),
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
        monkeypatch.setattr(csv_format, "_BLOCK_BYTES", block_bytes)
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
    with pytest.raises(
        BadInput, match=rf"{name}: row 1 opens a quote that is never closed, so its last value contains 2 more lines"
    ):
        read_all(tmp_path / name)


@pytest.mark.parametrize("end", ["", "\n", "\r\n", "\n\n"])
@pytest.mark.parametrize("text", ["a\nb", 'a"b\n', '"\n', "\n", "\n\n", 'a,"\n"', '\n"\n"'])
def test_a_text_of_several_lines_at_the_end_is_a_text(tmp_path: Path, text: str, end: str) -> None:
    escaped = text.replace('"', '""')
    (tmp_path / "rows.csv").write_bytes(f'n,x\n1,"{escaped}"{end}'.encode())
    assert read_all(tmp_path / "rows.csv")[1] == [{"n": 1, "x": text}]
    (tmp_path / "rows.csv").write_bytes(f'x\n"{escaped}"{end}'.encode())
    assert read_all(tmp_path / "rows.csv")[1] == [{"x": text}]


def test_line_breaks_in_values_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{number},word" for number in range(50)]
    (tmp_path / "rows.csv").write_text("n,x\n" + "\n".join(rows) + "\n")
    assert scan(find_source(tmp_path / "rows.csv")).notes == []
    rows[7], rows[20], rows[30] = '7,"oops', '20,oops"', '30,"two\nlines"'  # swallows twelve rows
    (tmp_path / "rows.csv").write_text("n,x\n" + "\n".join(rows) + "\n")
    for block_bytes in (1 << 20, 200):
        monkeypatch.setattr(csv_format, "_BLOCK_BYTES", block_bytes)
        notes = scan(find_source(tmp_path / "rows.csv")).notes
        assert [note.partition("rows.csv: ")[2].partition(" If")[0] for note in notes] == [
            "values with line breaks: 2. The longest has 14 lines (row 7, column 'x')."
        ]
