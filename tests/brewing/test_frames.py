"""Brewing from Python: rows in memory of every library, paths, live tables, and what the directory says afterwards."""

import doctest
import json
import logging
import subprocess
import sys
from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

import samovar
from samovar.brewing import brew_recipe
from samovar.brewing.frames import copy_rows, find_frame
from samovar.errors import BadInput, ConfigError, Conflict, UnknownColumn, UnknownKey
from samovar.tables import Table

NOON = 1609502400
ROLES = {
    "time": ["time", "key"],
    "user": "id",
    "ad": "hash",
    "title": {"text": {"words": 2}},
    "price": "number",
    "history": "id_sequence",
    "shown": "key",
}
ROWS = pa.table(
    {
        "time": [NOON + 3600, NOON, NOON + 2, NOON + 1],
        "user": pa.array([2**64 - 1, 0, None, 7], pa.uint64()),
        "ad": ["tea", None, "cups", ""],
        "title": ["hot tea", "", None, "ä ö"],
        "price": [0.5, None, 2.0, -1.0],
        "history": pa.array([[1, 2], [], None, [3]], pa.list_(pa.int64())),
        "shown": pa.array([datetime(2021, 1, 1, tzinfo=UTC), None] * 2, pa.timestamp("us", "UTC")),
        "junk": [1, 2, 3, 4],
    }
)


def to_pandas(rows: pa.Table) -> pd.DataFrame:
    return rows.to_pandas(types_mapper={pa.uint64(): pd.UInt64Dtype()}.get)


def to_relation(rows: pa.Table) -> duckdb.DuckDBPyRelation:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")  # which its times have, wherever they come from
    return connection.from_arrow(rows)


def to_shuffled_columns(rows: pa.Table) -> pa.Table:
    return rows.select(sorted(rows.column_names, reverse=True))


FRAMES: dict[str, Callable[[pa.Table], Any]] = {
    "pandas": to_pandas,
    "pandas with categories": lambda rows: to_pandas(rows).astype({"ad": "category"}),
    "pandas with strings": lambda rows: to_pandas(rows).astype({"ad": "string", "price": "Float64"}),
    "pandas with objects": lambda rows: to_pandas(rows).astype({"title": object, "user": object}),
    "polars": pl.from_arrow,
    "polars with categories": lambda rows: pl.DataFrame(rows).with_columns(pl.col("ad").cast(pl.Categorical)),
    "polars with an enum": lambda rows: pl.DataFrame(rows).with_columns(
        pl.col("ad").cast(pl.Enum(["tea", "cups", ""]))
    ),
    "lazy polars": lambda rows: pl.DataFrame(rows).lazy(),
    "a table": lambda rows: rows,
    "a table in pieces": lambda rows: pa.concat_tables([rows.slice(0, 1), rows.slice(1, 2), rows.slice(3)]),
    "a table with other columns first": to_shuffled_columns,
    "a reader": lambda rows: rows.to_reader(max_chunksize=1),
    "a batch": lambda rows: rows.combine_chunks().to_batches()[0],
    "a relation": to_relation,
}


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def brew(source: Any, result: str = "table", **keys: Any) -> Table:
    return samovar.brew(source, result, progress=False, **{"columns": ROLES, "batch_size": 2, **keys})


def files_in(folder: str, *names: str) -> dict[str, bytes]:
    paths = sorted(path for name in names for path in (Path(folder) / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def from_a_file() -> Table:
    parquet.write_table(ROWS, "rows.parquet")
    return brew("rows.parquet", "from_a_file")


@pytest.mark.parametrize("kind", FRAMES)
def test_rows_in_memory_make_the_table_of_a_file_with_the_same_rows(kind: str, from_a_file: Table) -> None:
    made = brew(FRAMES[kind](ROWS))
    assert files_in("table", "segments") == files_in("from_a_file", "segments")
    assert made.schema == from_a_file.schema
    assert made.id == brew(ROWS, "again").id  # the library that holds the rows does not count


@pytest.mark.parametrize("kind", FRAMES)
def test_the_same_rows_find_their_table_and_others_are_refused(kind: str) -> None:
    brew(FRAMES[kind](ROWS))
    before = files_in("table", "manifest", "segments", "status.json")
    brew(FRAMES[kind](ROWS), columns={**ROLES, "junk": "ignore"})
    assert files_in("table", "manifest", "segments", "status.json") == before
    with pytest.raises(
        Conflict, match=r"belongs to another config.*\n.*\nsource,rows in memory \(a .*\) \(id \w+\),rows"
    ):
        brew(FRAMES[kind](ROWS.slice(1)))


def test_paths_globs_and_lists_of_them_are_one_table() -> None:
    parquet.write_table(ROWS, "rows.parquet")
    ids = {brew(source, f"table{number}").id for number, source in enumerate(
        ["rows.parquet", Path("rows.parquet"), "r*.parquet", [Path("rows.parquet")], (Path("rows.parquet").absolute(),)]
    )}  # fmt: skip
    assert len(ids) == 1


def test_python_and_the_command_line_make_the_same_bytes(from_a_file: Table) -> None:
    recipe = {"source": "rows.parquet", "result": "commanded", "columns": ROLES, "batch_size": 2}
    Path("recipe.json").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "samovar", "brew", "recipe.json", "--json"]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    assert json.loads(done.stdout)["notes"][0].endswith("columns that the recipe does not name are ignored: junk")
    assert files_in("commanded", "manifest", "segments") == files_in("from_a_file", "manifest", "segments")
    assert brew_recipe("recipe.json", progress=False).counts is None
    assert brew_recipe(recipe, progress=False).counts is None
    assert brew_recipe({**recipe, "source": Path("rows.parquet")}, "from_a_file", progress=False).counts is None


def test_notes_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    brew(to_pandas(ROWS).set_index("junk"))
    assert [(record.levelno, record.getMessage()) for record in caplog.records] == [
        (logging.WARNING, "the index of the DataFrame is ignored; reset_index() makes it a column"),
        (logging.WARNING, "nulls that became 0: price 1"),
    ]
    caplog.clear()
    brew(ROWS, "other")
    assert "rows in memory (a pyarrow Table): columns that the recipe does not name are ignored: junk" in caplog.text


def test_a_plain_range_of_rows_is_no_index_to_speak_of(caplog: pytest.LogCaptureFixture) -> None:
    brew(to_pandas(ROWS).drop(columns="junk")[1:])
    assert "index" not in caplog.text


def test_pivot_joins_shuffle_and_limits_work_from_python() -> None:
    rows = pa.table({"hit": [3, 1, 2, 1], "place": [0, 1, 0, 0], "user": [1, 2, 3, 4]})
    more = pd.DataFrame({"hit": [1, 1, 2, 3], "place": [0, 1, 0, 0], "price": [10.0, 20.0, 30.0, 40.0]})
    joined = samovar.brew(
        rows,
        "joined",
        columns={"user": "id"},
        pivot_column="hit",
        stability_column="place",
        tables=[{"source": more, "columns": {"price": "number"}}],
        memory_limit="512MiB",
        batch_size=3,
        progress=False,
    )
    prices = [record["price"] for record in joined.read(["price"])]
    assert [price.tolist() for price in prices] == [[10.0, 20.0, 30.0], [40.0]]  # type: ignore[union-attr]
    kept = json.loads(Path("joined/model_config.json").read_text())
    assert kept["tables"][0]["source"] == "rows in memory (a pandas DataFrame)"
    orders = set()
    for seed in range(4):
        table = samovar.brew(rows, f"s{seed}", columns={"user": "key"}, shuffle={"seed": seed}, progress=False)
        orders.add(str([record["user"].to_pylist() for record in table.read(["user"])]))  # type: ignore[union-attr]
    assert len(orders) > 1


def test_a_live_table_grows_from_frames_hour_after_hour() -> None:
    roles = {"t": ["time", "key"], "user": "id", "ad": "hash", "price": "number"}
    for hour in range(3):
        frame = pd.DataFrame({"t": [NOON + 3600 * hour], "user": [hour], "ad": [None if hour == 1 else "tea"],
                              "price": [1 if hour == 1 else 0.5]})  # fmt: skip
        table = samovar.brew(frame, "live", columns=roles, append=True, progress=False)
        assert (table.version, table.complete_until) == (hour + 1, NOON + 3600 * (hour + 1))
    empty = pl.DataFrame(schema={"t": pl.Int64, "user": pl.Int64, "ad": pl.String, "price": pl.Float64})
    quiet = samovar.brew(empty, "live", columns=roles, append=True, end_date="2021-01-01T16:00", progress=False)
    assert quiet.complete_until == NOON + 4 * 3600
    with pytest.raises(BadInput, match="is complete until"):
        samovar.brew(frame, "live", columns=roles, append=True, progress=False)
    with pytest.raises(Conflict, match="live is a live table: add hours with append, or brew into another directory"):
        samovar.brew(frame, "live", columns=roles, progress=False)


def test_a_table_that_was_brewed_whole_cannot_grow() -> None:
    brew(ROWS)
    before = files_in("table", "manifest", "segments", "status.json", "model_config.json")
    with pytest.raises(
        Conflict, match=r"^table was brewed whole, so no hours can be appended\. Only a table that append"
    ):
        brew(ROWS, append=True)
    assert files_in("table", "manifest", "segments", "status.json", "model_config.json") == before


@pytest.mark.parametrize(
    ("frame", "message"),
    [
        (
            {"x": [1, "a"]},
            r"^a pandas DataFrame: column 'x' has values of several types, or of one that Arrow does not",
        ),
        ({"x": ["a", 1.5]}, "column 'x' has values of several types"),
        ({"x": [object()]}, "column 'x' has values of several types, or of one that Arrow does not have"),
        ({"x": [2**64]}, "column 'x' has values of several types, or of one"),
        ({"x": pd.period_range("2021", periods=1, freq="D")}, r"column 'x' is period\[D\]; convert it"),
        ({"x": [1, None]}, r"the role 'id' needs integers .*\(pandas turns integers .* astype\('Int64'\) keeps them\)"),
        ({"x": ["a"]}, r"^rows in memory \(a pandas DataFrame\): column 'x' is string, but the role 'id' needs"),
        ({"y": [1]}, r"^rows in memory \(a pandas DataFrame\): no column 'x'. Available: y"),
        ({0: [1]}, r"^rows in memory \(a pandas DataFrame\): the name of a column must be a string, got 0; rename"),
    ],
)
def test_a_frame_that_cannot_be_brewed_is_refused_in_one_sentence(frame: dict[Any, Any], message: str) -> None:
    with pytest.raises((BadInput, UnknownColumn), match=message):
        samovar.brew(pd.DataFrame(frame), "table", columns={"x": "id"}, progress=False)
    assert not Path("table").exists()


def test_what_is_not_used_may_be_of_any_type() -> None:
    frame = pd.DataFrame({"x": [1, 2], "mixed": [1, "a"], "twice": [1, 2]})
    frame.columns = pd.Index(["x", "mixed", "mixed"])
    assert samovar.brew(frame, "table", columns={"x": "id"}, progress=False).num_examples == 2
    with pytest.raises(BadInput, match="there are two columns 'mixed'"):
        samovar.brew(frame, "other", columns={"mixed": "id"}, progress=False)
    odd = pl.DataFrame({"x": pl.Series([object()], dtype=pl.Object), "i": pl.Series([2**100], dtype=pl.Int128)})
    for column in odd.columns:
        with pytest.raises(BadInput, match=f"column '{column}' is (Object|Int128)"):
            samovar.brew(odd, "odd", columns={column: "id"}, progress=False)


def test_a_row_is_named_by_its_number() -> None:
    with pytest.raises(BadInput, match=r"^rows in memory \(a pandas DataFrame\) row 1: the time is null"):
        samovar.brew(
            pd.DataFrame({"t": [NOON, None], "x": [1, 2]}), "table", columns={"x": "id"}, time="t", progress=False
        )


def test_a_relation_that_fails_is_reported() -> None:
    relation = duckdb.connect().sql("SELECT error('no tea') AS x FROM range(3)")
    with pytest.raises(BadInput, match=r"^rows in memory \(a DuckDB relation\): cannot be read \(.*no tea"):
        samovar.brew(relation, "table", columns={"x": "hash"}, progress=False)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"bach_size": 5}, r"^samovar.brew: bach_size: unknown key. Did you mean 'batch_size'\?"),
        ({"batch_size": 0}, "^samovar.brew: batch_size must be at least 1, got 0"),
        ({"time": "t", "time_field": "t"}, "time and time_field are the same key; give one of the two"),
        ({"columns": {"x": "ids"}}, r"^samovar.brew: columns.x: 'ids' is not a role. Did you mean 'id'\?"),
        ({"columns": {1: "id"}}, "columns: JSON cannot hold the key 1"),
        ({"batch_size": np.int64(5)}, "batch_size: JSON cannot hold"),
        ({"append": True}, "append needs a recipe with time_field: a table without hours cannot grow"),
        ({"source": {"x": [1]}}, "source must be a string or a list"),
        ({"source": object()}, "source must be one or more paths, a DataFrame of pandas or polars, .*, got"),
        ({"source": []}, "source: no file is named"),
        ({"source": "nowhere.csv"}, "source: no such file: nowhere.csv"),
    ],
)
def test_wrong_keys_are_refused_as_in_a_recipe(keys: dict[str, Any], message: str) -> None:
    arguments = {"source": pa.table({"x": [1]}), "columns": {"x": "id"}, **keys}
    with pytest.raises((ConfigError, UnknownKey, BadInput), match=message):
        samovar.brew(result="table", progress=False, **arguments)
    assert not Path("table").exists()


def test_a_recipe_in_python_needs_a_place_for_its_table() -> None:
    with pytest.raises(ConfigError, match=r"^recipe: result is missing; name the directory of the table"):
        brew_recipe({"source": pa.table({"x": [1]}), "columns": {"x": "id"}})


@pytest.mark.parametrize("function", [samovar.brew, brew_recipe])
def test_the_examples_run(function: Callable[..., Any]) -> None:
    (example,) = doctest.DocTestFinder().find(function, function.__name__, globs={function.__name__: function})
    assert doctest.DocTestRunner().run(example).failed == 0


def run_command(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "samovar", *arguments], capture_output=True, text=True, check=False)


def test_the_directory_says_that_its_rows_were_in_memory() -> None:
    brew(to_pandas(ROWS))
    why = run_command("why", "table")
    place = "source = rows in memory (a pandas DataFrame)"
    assert why.stdout == f"table: {place}: they are not kept, so it is not known whether they changed\n"
    assert place in run_command("chain", "table").stdout
    assert run_command("audit", "table").returncode == 0
    replay = run_command("replay", "table")
    assert replay.returncode == 2
    assert replay.stderr.startswith("error: table: was brewed from rows in memory, which its directory does not keep")
    again = run_command("brew", "table/model_config.json")
    assert again.returncode == 2
    assert again.stderr.startswith("error: source: rows in memory (a pandas DataFrame) are not stored; call")


def test_a_table_of_a_frame_and_a_file_still_knows_the_file() -> None:
    parquet.write_table(pa.table({"hit": [1, 2], "price": [1.0, 2.0]}), "prices.parquet")
    more = [{"source": "prices.parquet", "columns": {"price": "number"}}]
    samovar.brew(
        pa.table({"hit": [1, 2]}), "table", columns={"hit": "key"}, pivot_column="hit", tables=more, progress=False
    )
    parquet.write_table(pa.table({"hit": [1, 2], "price": [1.0, 3.0]}), "prices.parquet")
    lines = run_command("why", "table").stdout.splitlines()
    assert lines[0].endswith("prices.parquet: changed")
    assert "they are not kept" in lines[1]


def test_polars_stays_unloaded_where_it_is_not_used() -> None:
    program = (
        "import sys, samovar, pyarrow\n"
        "samovar.brew(pyarrow.table({'x': [1]}), 'table', columns={'x': 'id'}, progress=False)\n"
        "print('polars' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


# The fingerprint

_COLUMNS = {
    "int": (pa.int64(), st.integers(-(2**63), 2**63 - 1)),
    "real": (pa.float64(), st.floats()),
    "flag": (pa.bool_(), st.booleans()),
    "text": (pa.string(), st.text(max_size=4)),
    "bytes": (pa.binary(), st.binary(max_size=4)),
    "list": (pa.list_(pa.int32()), st.lists(st.none() | st.integers(0, 9), max_size=3)),
    "deep": (pa.list_(pa.list_(pa.string())), st.lists(st.none() | st.lists(st.text(max_size=2)), max_size=2)),
    "price": (pa.decimal128(9, 2), st.integers(0, 10**6).map(lambda cents: Decimal(cents) / 100)),
    "point": (pa.struct({"x": pa.int64()}), st.fixed_dictionaries({"x": st.integers(0, 9)})),
}  # fmt: skip


@st.composite
def tables(draw: st.DrawFn) -> pa.Table:
    num_rows = draw(st.integers(1, 6))
    arrays = {
        name: pa.array(draw(st.lists(st.none() | values, min_size=num_rows, max_size=num_rows)), kind)
        for name, (kind, values) in _COLUMNS.items()
    }
    return pa.table(arrays)


def fingerprint(rows: Any) -> Any:
    frame = find_frame(rows)
    assert frame is not None
    return copy_rows(frame, list(frame.names), None, known_types={})


@given(tables(), st.integers(1, 3), st.integers(0, 3))
def test_a_fingerprint_does_not_depend_on_batches_offsets_or_the_order_of_columns(
    rows: pa.Table, size: int, offset: int
) -> None:
    expected = fingerprint(rows)
    assert fingerprint(rows.to_reader(max_chunksize=size)) == expected
    assert fingerprint(to_shuffled_columns(rows)) == expected
    padded = pa.concat_tables([*[rows] * offset, rows]).combine_chunks()
    assert fingerprint(padded.slice(offset * rows.num_rows)) == expected
    assert fingerprint(pl.DataFrame(rows.drop(["price"]))) == fingerprint(rows.drop(["price"]))


@given(tables(), st.sampled_from(sorted(_COLUMNS)), st.integers(0, 5))
def test_a_fingerprint_depends_on_every_value(rows: pa.Table, name: str, row: int) -> None:
    place = rows.column_names.index(name)
    values = rows.column(name).to_pylist()
    row %= len(values)
    values[row] = None if values[row] is not None else _REPLACEMENTS[name]
    changed = rows.set_column(place, name, pa.array(values, rows.schema.field(name).type))
    assert fingerprint(changed) != fingerprint(rows)
    assert fingerprint(rows.rename_columns([f"{each}_" for each in rows.column_names])) != fingerprint(rows)
    assert fingerprint(rows.slice(1)) != fingerprint(rows)


def test_a_slice_of_many_strings_is_read_though_small_offsets_cannot_address_it() -> None:
    offsets = np.array([0, 2**31, 2**31 + 1, 2**31 + 3], np.int64)
    data = np.zeros(2**31 + 3, np.uint8)  # never touched, but for its end
    data[-3:] = ord("a")
    strings = pa.LargeStringArray.from_buffers(3, pa.py_buffer(offsets), pa.py_buffer(data))
    assert fingerprint(pa.table({"x": strings}).slice(1)) == fingerprint(pa.table({"x": ["a", "aa"]}))


_REPLACEMENTS: dict[str, Any] = {
    "int": 0, "real": 0.0, "flag": False, "text": "", "bytes": b"", "list": [], "deep": [], "price": Decimal(0),
    "point": {"x": 0},
}  # fmt: skip
