"""Sources of one or several files: which files they have, which columns, which fingerprints."""

import gzip
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.columns import Factors, find_converters
from samovar.brewing.sources import find_source, fingerprint, read_in_order, scan
from samovar.errors import BadInput, UnknownColumn
from samovar.testing.format import read_all


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


def test_numbers_of_several_files_take_the_widest_type(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": pa.array([1], pa.int8()), "only": [1]}), tmp_path / "1.parquet")
    parquet.write_table(pa.table({"x": pa.array([2], pa.int64())}), tmp_path / "2.parquet")
    assert read_all(str(tmp_path / "*")) == ({"x": "int64"}, [{"x": 1}, {"x": 2}])
    parquet.write_table(pa.table({"x": pa.array([2], pa.uint64())}), tmp_path / "3.parquet")
    with pytest.raises(BadInput, match=r"column 'x' is int64 in .*2.parquet and uint64 in .*3.parquet; cast it"):
        read_all(str(tmp_path / "*"))


@pytest.mark.parametrize("name", ["rows.parquet", "rows.arrow", "rows.csv", "rows.jsonl"])
def test_a_file_that_cannot_be_read_is_named(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(b'{"a": 1,\n"a"' if name.endswith("jsonl") else b"")
    with pytest.raises(BadInput, match=rf"{name}: cannot be read as \w+ \("):
        read_all(tmp_path / name)


@pytest.mark.parametrize(
    ("name", "data"),
    [("rows.csv", b"a,\xff\n1,2\n"), ("rows.jsonl", b'{"a": "\xff"}\n'), ("rows.jsonl", b'{"\xff": 1}\n')],
)
def test_what_is_not_utf8_is_refused(tmp_path: Path, name: str, data: bytes) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(BadInput, match=rf"{name}: cannot be read as \w+ \(line 1 is not utf-8\); set encoding"):
        read_all(tmp_path / name)


@pytest.mark.parametrize("doubled", ["1.csv", "2.csv", "2.parquet"])
def test_a_column_that_a_file_has_twice_is_refused_where_it_is_used(tmp_path: Path, doubled: str) -> None:
    (tmp_path / "1.csv").write_text("a,b\n1,2\n")
    if doubled.endswith("csv"):
        (tmp_path / doubled).write_text("a,b,a\n1,2,3\n")
    else:
        parquet.write_table(pa.Table.from_arrays([pa.array([1])] * 3, names=["a", "b", "a"]), tmp_path / doubled)
    source = find_source(str(tmp_path / "*"))
    schema = scan(source).schema
    assert find_converters(schema, Factors(categorical_factors=["b"]), "here")
    assert [row["b"] for batch in read_in_order(source, schema, ["b"]) for row in batch.to_pylist()][:1] == [2]
    with pytest.raises(BadInput, match=r"here: there are two columns 'a'; rename or remove one"):
        find_converters(schema, Factors(categorical_factors=["a"]), "here")


def test_a_file_without_a_column_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x\n1\n")
    source = find_source(tmp_path / "a.csv")
    with pytest.raises(UnknownColumn, match=r"a.csv: no column 'y'. Available: x"):
        list(read_in_order(source, pa.schema({"y": pa.int64()}), ["y"]))


@pytest.mark.parametrize(
    ("pattern", "message"),
    [
        ("none.csv", r"source: no such file: none.csv \(in /"),
        (".", r"source: . is a folder; name its files, for example"),
        ("rows.xlsx", r"rows.xlsx: unknown file format. Known suffixes: .parquet,"),
        ([], r"source: no file is named"),
        ("", r"source: no file is named; give one or more paths"),
    ],
)
def test_a_source_without_readable_files_is_refused(tmp_path: Path, pattern: Any, message: str) -> None:
    (tmp_path / "rows.xlsx").touch()
    with pytest.raises(BadInput, match=message):
        find_source(pattern, tmp_path)


def test_a_file_that_vanished_is_our_error(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").touch()
    source = find_source(tmp_path / "rows.csv")
    (tmp_path / "rows.csv").unlink()
    with pytest.raises(BadInput, match=r"rows.csv: cannot be read as csv \(.*No such file"):
        scan(source)


def test_files_are_sorted_by_path_and_listed_once(tmp_path: Path) -> None:
    for name in ("b.csv", "a.csv", "a.tsv.gz"):
        (tmp_path / name).touch()
    source = find_source(["*.csv", "b.csv", "a.tsv.gz"], tmp_path)
    assert [file.path.name for file in source.files] == ["a.csv", "a.tsv.gz", "b.csv"]


def test_a_fingerprint_depends_on_name_and_content_but_not_on_the_folder(tmp_path: Path) -> None:
    for folder in ("one", "two"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "rows.csv").write_text("x\n1\n")
    first, second = (fingerprint(tmp_path / folder / "rows.csv") for folder in ("one", "two"))
    assert first == second == {"name": "rows.csv", "size_bytes": 4, "xxh64": first["xxh64"]}
    (tmp_path / "two" / "rows.csv").write_text("x\n2\n")
    assert fingerprint(tmp_path / "two" / "rows.csv") != first


def test_an_encoding_is_that_of_every_text_file(tmp_path: Path) -> None:
    (tmp_path / "1.csv").write_bytes("word,n\ncafé,1\n".encode("latin-1"))
    with gzip.open(tmp_path / "2.jsonl.gz", "wb") as file:
        file.write('{"word": "£5", "n": 2}\n'.encode("latin-1"))
    kinds, rows = read_all(str(tmp_path / "*"), encoding="latin-1")
    assert kinds == {"word": "string", "n": "int64"}
    assert rows == [{"word": "café", "n": 1}, {"word": "£5", "n": 2}]
    (tmp_path / "3.csv").write_bytes('word,n\n"two\nlines, é",3\n'.encode("utf-16"))
    assert read_all(tmp_path / "3.csv", encoding="utf-16")[1] == [{"word": "two\nlines, é", "n": 3}]


def test_a_line_that_the_encoding_cannot_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_bytes(b"word\nplain\ncaf\xe9\n")
    with pytest.raises(
        BadInput, match=r"rows.csv: cannot be read as csv \(line 3 is not utf-8\); set encoding, for ex"
    ):
        scan(find_source(tmp_path / "rows.csv"))
    with pytest.raises(BadInput, match=r"line 3 is not ascii"):
        scan(find_source(tmp_path / "rows.csv", encoding="ascii"))


def test_an_encoding_without_text_files_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [1]}), tmp_path / "rows.parquet")
    with pytest.raises(BadInput, match=r"encoding 'latin-1' is for text files, but .*rows.parquet is a parquet file"):
        find_source(tmp_path / "rows.parquet", encoding="latin-1")


def test_types_do_not_depend_on_how_rows_are_spread_over_files(tmp_path: Path) -> None:
    """Each file is looked at by itself, on an executor of a cluster too; together they are one table."""
    columns = {
        "number": ["1", "2", "-3", "2.5"],
        "word": ["1", "NA", "3", ""],
        "texts": ["a", "1", "2", "b"],
        "late": ["1", "2", "x", "y"],
        "flag": ["true", "", "false", "true"],
        "empty": ["", "", "", ""],
        "mixed": ["true", "1", "", ""],
        "large": ["18446744073709551615", "", "5", ""],
    }
    found = []
    for number, sizes in enumerate(([4], [1, 3], [2, 2], [1, 1, 1, 1])):
        folder = tmp_path / str(number)
        folder.mkdir()
        first = 0
        for size in sizes:
            rows = zip(*(values[first : first + size] for values in columns.values()), strict=True)
            lines = [",".join(columns), *(",".join(row) for row in rows)]
            (folder / f"{first}.csv").write_text("\n".join(lines) + "\n")
            first += size
        found.append(scan(find_source(str(folder / "*.csv"))))
    assert [str(field.type) for field in found[0].schema] == [
        "double", "int64", "string", "string", "bool", "null", "string", "uint64",
    ]  # fmt: skip
    for each in found[1:]:
        assert each.schema.equals(found[0].schema, check_metadata=True)
        assert each.odd_texts["late"].endswith("has 'x'")
        assert set(each.odd_texts) <= {"late", "mixed"}
    assert found[1].odd_texts["late"] == f"{tmp_path}/1/1.csv row 1 has 'x'"
    assert found[3].odd_texts["late"] == f"{tmp_path}/3/2.csv row 0 has 'x'"
