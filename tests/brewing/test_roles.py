"""Column roles: the same table as the factor lists, and errors in the words of the recipe."""

import json
import string
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from samovar.brewing import brew_recipe
from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.recipe import Recipe
from samovar.config.identity import compare, identity
from samovar.config.roles import long_form
from samovar.errors import BadInput, ConfigError, Conflict
from samovar.tables import open_table

ROWS = pa.table(
    {
        "t": [1609502400, 1609502401, 1609506000],
        "user": [1, 2, 3],
        "ad": ["tea", None, "cups"],
        "title": ["hot tea", "cold tea", ""],
        "price": [0.5, None, 2.0],
        "history": [[1, 2], [], None],
        "hit": ["a", "b", "c"],
        "junk": [{"a": 1}, None, None],
    }
)
SHORT: dict[str, Any] = {
    "source": "rows.parquet",
    "columns": {
        "t": ["time", "key"],
        "user": ["id", "key"],
        "ad": "hash",
        "title": {"text": {"words": 2}},
        "price": "number",
        "history": "id_sequence",
        "hit": "key",
        "junk": "ignore",
    },
}
LONG: dict[str, Any] = {
    "source": "rows.parquet",
    "time_field": "t",
    "categorical_factors": ["user"],
    "hashed_factors": ["ad"],
    "text_factors": {"title": {"words": 2}},
    "realvalue_factors": ["price"],
    "unravelled_categorical_factors": ["history"],
    "keys": ["t", "user", "hit"],
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    return tmp_path


def run(folder: Path, tree: dict[str, Any], result: str = "table", append: bool = False) -> Any:
    return make_table(load_recipe(tree, "recipe.json", folder), folder / result, append=append)


def files_in(folder: Path) -> dict[str, bytes]:
    paths = sorted(path for name in ("manifest", "segments") for path in (folder / name).rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def test_roles_and_lists_make_the_same_table_with_the_same_id(folder: Path) -> None:
    run(folder, SHORT, "short")
    run(folder, LONG, "long")
    assert open_table(folder / "short").id == open_table(folder / "long").id
    assert files_in(folder / "short") == files_in(folder / "long")
    assert run(folder, LONG, "short").counts is None
    done = run(folder, SHORT, "long")
    assert (done.counts, done.notes) == (None, [])
    kept = json.loads((folder / "short/model_config.json").read_text())
    assert kept == {**SHORT, "source": str(folder / "rows.parquet")}  # as the user wrote it


def test_a_joined_table_and_a_live_table_take_both_spellings(folder: Path) -> None:
    first = {"source": "rows.parquet", "time_field": "t", "columns": {"user": "id"}, "pivot_column": "hit"}
    short = {**first, "tables": [{"source": "rows.parquet", "columns": {"price": "number"}}]}
    long = {
        **{key: value for key, value in first.items() if key != "columns"},
        "categorical_factors": ["user"],
        "tables": [{"source": "rows.parquet", "realvalue_factors": ["price"]}],
    }
    run(folder, short, "joined")
    assert run(folder, long, "joined").counts is None
    run(folder, {**short, "end_date": "2021-01-01T13:00"}, "live", append=True)
    assert run(folder, {**long, "start_date": "2021-01-01T13:00"}, "live", append=True).version == 2


def test_an_option_of_a_role_is_written_in_either_spelling(folder: Path) -> None:
    run(folder, {"source": "rows.parquet", "columns": {"price": {"number": {"scale": "running"}}}}, "short")
    assert (
        run(
            folder, {"source": "rows.parquet", "realvalue_factors": ["price"], "scale": {"price": "running"}}, "short"
        ).counts
        is None
    )
    run(folder, {"source": "rows.parquet", "columns": {"price": {"number": {}}}}, "plain")
    assert run(folder, {"source": "rows.parquet", "columns": {"price": "number"}}, "plain").counts is None
    converters = [open_table(folder / name).schema.columns[0].converter for name in ("short", "plain")]
    assert converters == [{"role": "number", "shape": None, "scale": "running"}, {"role": "number", "shape": None}]


def test_a_conflict_is_shown_as_both_recipes_are_written(folder: Path) -> None:
    run(folder, SHORT)
    other = {**SHORT, "columns": {**SHORT["columns"], "price": "key"}}
    with pytest.raises(Conflict, match=r"\ncolumns.price,number,key\n"):
        run(folder, other)
    with pytest.raises(Conflict, match=r'\nrealvalue_factors,"\[""price""\]",\n'):
        run(folder, {key: value for key, value in LONG.items() if key != "realvalue_factors"})
    backwards = {**SHORT, "columns": dict(reversed(SHORT["columns"].items()))}
    with pytest.raises(Conflict, match=r"\nkeys,"):  # the order of the columns is another table
        run(folder, backwards)


def test_columns_that_are_not_named_are_reported(folder: Path) -> None:
    done = run(folder, {"source": "rows.parquet", "time_field": "t", "columns": {"user": "id"}, "pivot_column": "hit"})
    assert done.notes == [
        "rows.parquet: columns that the recipe does not name are ignored: ad, history, junk, price, title"
    ]
    assert run(folder, {"source": "rows.parquet", "keys": ["hit"]}, "long").notes == []
    wide = pa.table({name: [1] for name in string.ascii_lowercase})
    parquet.write_table(wide, folder / "wide.parquet")
    (note,) = run(folder, {"source": "wide.parquet", "columns": {"a": "id", "c": "ignore"}}, "wide").notes
    assert (
        note
        == "wide.parquet: columns that the recipe does not name are ignored: b, d, e, f, g, h, i, j, k, l and 14 more"
    )


@pytest.mark.parametrize(
    ("column", "role", "message"),
    [
        ("ad", "id", r"but the role 'id' needs integers or lists of them; use 'hash' \(a string is one id\) or 'text'"),
        (
            "ad",
            "number",
            r"needs numbers or lists of them; use 'hash' \(a string is one id\) or 'text' \(a bag of words\)",
        ),
        (
            "price",
            "id",
            "but the role 'id' needs integers or lists of them; ids .*; use 'number', or correct its values",
        ),
        ("user", "id_sequence", "the role 'id_sequence' needs a list; use 'id'"),
        ("user", "hash", "the role 'hash' needs strings or lists of them; use 'id'"),
        ("price", "text", "the role 'text' needs strings; use 'number'"),
        ("history", "key", "the role 'key' needs a single value per row; give it another role"),
        ("junk", "id", "cast it to a number, or use 'key'"),
    ],
)
def test_a_role_that_does_not_fit_is_refused_with_the_right_one(
    folder: Path, column: str, role: str, message: str
) -> None:
    with pytest.raises(BadInput, match=f"^rows.parquet: column '{column}' is .*{message}"):
        run(folder, {"source": "rows.parquet", "columns": {column: role}})
    assert not (folder / "table").exists()


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"columns": {"title": "texts"}},
            r"^r: columns.title: 'texts' is not a role. Did you mean 'text'\? Available: id, id_sequence, hash, text, "
            "number, key, time, ignore$",
        ),
        ({"columns": {"a.b": "idd"}}, r'columns\["a.b"\]: \'idd\' is not a role'),
        ({"columns": {"x": ["id", "kye"]}}, r"columns.x\[1\]: 'kye' is not a role. Did you mean 'key'\?"),
        ({"columns": {"x": [["id"]]}}, r"columns.x\[0\] must be a string"),
        ({"columns": {"x": 5}}, "columns.x must be a string, got 5"),
        ({"columns": ["x"]}, "columns must be an object"),
        ({"columns": {"x": {"text": {}}}}, 'columns.x.text: give "words" or "ngrams"'),
        ({"columns": {"x": {"text": {"word": 1}}}}, "columns.x.text.word: unknown key. Did you mean .*words"),
        ({"columns": {"x": [{"text": {"words": 17}}, "key"]}}, r"columns.x\[0\].text.words must be at most 16, got 17"),
        ({"columns": {"x": {"hash": {}}}}, "columns.x.hash: unknown key. Available: text"),
        ({"columns": {"x": []}}, "columns.x: give a role, or 'ignore'"),
        ({"columns": {"x": ["id", "id"]}}, "columns.x: a role is given twice"),
        ({"columns": {"x": ["id", "hash"]}}, "columns.x: 'id' and 'hash' cannot be combined"),
        ({"columns": {"x": ["key", "ignore"]}}, "columns.x: 'key' and 'ignore' cannot be combined"),
        ({"columns": {"x": "ignore"}}, "no columns are named"),
        ({"columns": {"x": "id"}, "keys": ["x"]}, "column 'x' is in both columns and keys; keep one of the two"),
        ({"columns": {"x": "ignore"}, "text_factors": {"x": {"words": 1}}}, "in both columns and text_factors"),
        ({"columns": {"x": "id", "a": "time", "b": "time"}}, "columns.b: 'a' has the role 'time' too"),
        ({"columns": {"x": "id", "a": "time"}, "time_field": "a"}, "columns.a: the time is also named by time_field"),
        ({"columns": {"x": "id"}, "granularity": 5}, "granularity needs time_field, or a column with the role time"),
        ({"columns": {"x": "id", "a": "time"}, "shuffle": {}}, "shuffle and time_field exclude each other"),
        (
            {"columns": {"x": "id", "a": "time"}, "tables": [{"source": "b", "columns": {"a": "time", "y": "id"}}]},
            r"tables\[0\].columns.a: name the time once, at the top of the recipe",
        ),
    ],
)
def test_a_wrong_role_is_named(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Recipe.load({"source": "rows.csv", **keys}, "r")


_FACTORS = ["id", "id_sequence", "hash", "text", "number", {"text": {"words": 2, "lower": False}}]
_LISTS = {"id": "categorical_factors", "id_sequence": "unravelled_categorical_factors", "hash": "hashed_factors",
          "number": "realvalue_factors"}  # fmt: skip


@st.composite
def spellings(draw: st.DrawFn) -> tuple[dict[str, Any], dict[str, Any]]:
    """A mapping of roles, and the lists that a person would write for it."""
    names = draw(st.lists(st.text(string.ascii_letters + '."[] ', min_size=1), min_size=1, max_size=8, unique=True))
    columns: dict[str, Any] = {}
    lists: dict[str, Any] = {}
    time = draw(st.sampled_from([None, *names]))
    for name in names:
        factor = draw(st.sampled_from([None, *_FACTORS]))
        roles = [] if factor is None else [factor]
        if isinstance(factor, dict):
            lists.setdefault("text_factors", {})[name] = factor["text"]
        elif factor == "text":
            lists.setdefault("text_factors", {})[name] = {"words": 1}
        elif isinstance(factor, str):
            lists.setdefault(_LISTS[factor], []).append(name)
        if draw(st.booleans()):
            roles.append("key")
            lists.setdefault("keys", []).append(name)
        if name == time:
            roles.append("time")
            lists["time_field"] = name
        is_single = len(roles) == 1 and draw(st.booleans())
        columns[name] = "ignore" if not roles else roles[0] if is_single else draw(st.permutations(roles))
    return columns, lists


@given(spellings())
def test_every_mapping_of_roles_means_its_lists(spelling: tuple[dict[str, Any], dict[str, Any]]) -> None:
    columns, lists = spelling
    short, long = {"source": "a.csv", "columns": columns}, {"source": "a.csv", **lists}
    assert long_form(short) == long
    assert identity(short) == identity(long)
    assert not compare(short, long).conflicts
    assert not compare(short, long).allowed
    if set(lists) - {"time_field"}:
        one, other = Recipe.load(short, "short"), Recipe.load(long, "long")
        assert one.factors.lists.keys() == other.factors.lists.keys()
        for name in one.factors.lists:
            assert list(one.factors.lists[name]) == list(other.factors.lists[name])
        assert (one.order, one.clock) == (other.order, other.clock)


_FITTING: dict[str, list[Any]] = {
    "user": ["id", "number"],
    "ad": ["hash", "text"],
    "title": ["hash", "text", {"text": {"ngrams": 2}}],
    "price": ["number"],
    "history": ["id", "id_sequence"],
    "hit": ["hash"],
}


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_random_roles_give_the_bytes_of_their_lists(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("roles")
    parquet.write_table(ROWS, folder / "rows.parquet")
    names = data.draw(st.permutations(list(_FITTING)))
    columns: dict[str, Any] = {}
    for name in names:
        factor = data.draw(st.sampled_from([None, *_FITTING[name]]))
        is_key = name != "history" and data.draw(st.booleans())
        columns[name] = [each for each in (factor, "key" if is_key else None) if each is not None] or "ignore"
    columns["t"] = data.draw(st.sampled_from(["time", "id", ["time", "key"], "ignore"]))
    if all(value in ("ignore", "time") for value in columns.values()):
        columns["hit"] = "key"
    short = {"source": "rows.parquet", "columns": columns}
    run(folder, short, "short")
    run(folder, dict(long_form(short)), "long")
    assert files_in(folder / "short") == files_in(folder / "long")


def test_an_override_can_name_a_role(folder: Path) -> None:
    (folder / "recipe.json").write_text(json.dumps(SHORT))
    done = brew_recipe(folder / "recipe.json", folder / "out", overrides=[{"columns.price": "key"}], progress=False)
    kinds = {column.name: column.kind for column in open_table(done.directory).schema.columns}
    assert kinds["price"] == "key"
