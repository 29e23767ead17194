"""Brewing as a stage: directories, caches, live tables, the functions for scripts, the command."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar import brewing
from samovar.brewing import stage
from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.order import DATE, GRANULAR
from samovar.brewing.plan import BrewPlan
from samovar.brewing.stage import BrewResult
from samovar.cli.tables import brew as brew_command
from samovar.errors import BadInput, ConfigError, Conflict, LeaseHeld, NotAResult, UnknownKey
from samovar.hours import show_hour
from samovar.results import open_directory
from samovar.store import LocalStore, take_lease
from samovar.store.lease import without_epoch
from samovar.tables import Record, open_table

NOON = 1609502400
RECIPE: dict[str, Any] = {
    "source": "rows.parquet",
    "time_field": "time",
    "batch_size": 2,
    "categorical_factors": ["id"],
    "keys": ["time"],
}


def write_rows(folder: Path, times: list[int], name: str = "rows.parquet") -> None:
    ids = pa.array([2**64 - 1 - time for time in times], pa.uint64())
    parquet.write_table(pa.table({"time": times, "id": ids}), folder / name)


def run(folder: Path, append: bool = False, result: str = "table", **keys: Any) -> BrewResult:
    tree = {**RECIPE, **keys}
    return make_table(load_recipe(tree, "recipe.json", folder), folder / result, append=append)


def times_in(folder: Path, result: str = "table") -> list[list[int]]:
    return [list(column(record, "time").to_pylist()) for record in open_table(folder / result).read(["time"])]


def column(record: Record, name: str) -> Any:
    return record[name]


def files_in(folder: Path) -> dict[str, bytes]:
    names = ("manifest", "segments")
    return {
        without_epoch(str(path.relative_to(folder))): path.read_bytes()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


def test_a_recipe_becomes_a_table_that_is_not_made_twice(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON + 3600, NOON + 1, NOON, NOON + 2])
    done = run(tmp_path)
    assert done.counts is not None
    assert (done.counts.num_rows, done.counts.num_batches, done.counts.num_short_batches) == (4, 3, 2)
    assert times_in(tmp_path) == [[NOON, NOON + 1], [NOON + 2], [NOON + 3600]]
    assert list(open_table(tmp_path / "table").hours) == [NOON, NOON + 3600]
    before = files_in(tmp_path / "table")
    assert run(tmp_path, memory_limit="1GB").counts is None
    assert files_in(tmp_path / "table") == before


def test_the_same_rows_give_the_same_bytes_wherever_they_are(tmp_path: Path) -> None:
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        write_rows(tmp_path / name, [NOON + 5, NOON])
        run(tmp_path / name)
    assert files_in(tmp_path / "here" / "table") == files_in(tmp_path / "there" / "table")


def test_other_rows_or_another_recipe_are_another_table(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    run(tmp_path)
    with pytest.raises(Conflict, match=r"belongs to another config.*\n.*\nbatch_size,2,3"):
        run(tmp_path, batch_size=3)
    write_rows(tmp_path, [NOON + 1])
    with pytest.raises(Conflict, match=r"belongs to another config.*\n.*\nsource,.*/rows.parquet \(id "):
        run(tmp_path)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"categorical_factors": ["idd"]}, "no column 'idd'"),
        ({"categorical_factors": ["_hour"]}, "column '_hour': every table has a column of that name"),
        (
            {"pivot_column": "id", "tables": [{"source": "rows.parquet", "categorical_factors": ["id"]}]},
            "column 'id' comes from both table 1 and table 2",
        ),
        ({"categorical_factors": ["key:id"], "hashed_factors": ["id"], "keys": ["id"]}, "two columns .* 'key:id'"),
    ],
)
def test_a_mistake_leaves_no_directory(tmp_path: Path, keys: dict[str, Any], message: str) -> None:
    names = ["time", "id", "_hour", "key:id"]
    arrays = [pa.array([NOON]), pa.array(["x"] if "hashed_factors" in keys else [1]), pa.array([1]), pa.array([1])]
    parquet.write_table(pa.Table.from_arrays(arrays, names=names), tmp_path / "rows.parquet")
    with pytest.raises((ValueError, LookupError), match=message):
        run(tmp_path, **keys)
    assert not (tmp_path / "table").exists()


def test_a_failure_leaves_its_directory_to_a_corrected_source_or_recipe(tmp_path: Path) -> None:
    (tmp_path / "table" / "external_stuff").mkdir(parents=True)
    (tmp_path / "table" / "external_stuff" / "mine.txt").write_text("kept")
    for append in (False, True):
        (tmp_path / "rows.csv").write_text("time,id\n1609502400,1\n,2\n")
        with pytest.raises(BadInput, match="the time is null"):
            run(tmp_path, append, source="rows.csv")
        with pytest.raises(NotAResult, match="none that was brewed to the end"):
            open_table(tmp_path / "table")
        assert [path.name for path in (tmp_path / "table").glob("[!.]*")] == ["external_stuff"]
    (tmp_path / "rows.csv").write_text("time,id\n1609502400,1\n")
    with pytest.raises(BadInput, match="no rows"):
        run(tmp_path, source="rows.csv", end_date="2020-01-01", batch_size=7)
    assert run(tmp_path, source="rows.csv", batch_size=3).counts is not None
    assert times_in(tmp_path) == [[NOON]]
    assert (tmp_path / "table" / "external_stuff" / "mine.txt").read_text() == "kept"


def test_a_failure_leaves_earlier_versions_and_another_holder_alone(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    run(tmp_path, append=True)
    before = files_in(tmp_path / "table")
    with pytest.raises(BadInput, match="no rows"):
        run(tmp_path, append=True, start_date="2022-01-01")
    assert files_in(tmp_path / "table") == before
    assert run(tmp_path, append=True, end_date="2021-01-02", start_date="2021-01-01T13:00").version == 2
    with take_lease(LocalStore(tmp_path / "other")), pytest.raises(LeaseHeld):
        run(tmp_path, result="other")


def test_hours_without_rows_only_move_the_end_of_a_live_table(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    (tmp_path / "quiet.jsonl").touch()
    (tmp_path / "quiet.csv").write_text("time,id\n")
    with pytest.raises(BadInput, match=r"quiet.jsonl: no rows, or none"):  # nothing is known about its columns yet
        run(tmp_path, append=True, source="quiet.jsonl", end_date="2021-01-01T12:00")
    run(tmp_path, append=True)
    quiet = [("quiet.jsonl", 14), ("quiet.csv", 15), ("rows.parquet", 16)]
    for version, (source, stop) in enumerate(quiet, 2):
        keys = {"source": source, "start_date": "2021-01-01T13:00", "end_date": f"2021-01-01T{stop}:00"}
        done = run(tmp_path, append=True, **keys)
        assert done.counts is not None
        assert (done.version, done.counts.num_rows) == (version, 0)
        table = open_table(tmp_path / "table")
        assert (table.complete_until, table.num_minibatches, list(table.hours)) == (
            NOON + (stop - 12) * 3600,
            1,
            [NOON],
        )
        with pytest.raises(
            BadInput,
            match=rf"nothing to append: .*no rows, and the table is complete until 2021-01-01T{stop}:00 already",
        ):
            run(tmp_path, append=True, **keys)
    with pytest.raises(BadInput, match=r"quiet.jsonl: no rows, or none"):  # until when would it be complete?
        run(tmp_path, append=True, source="quiet.jsonl")
    write_rows(tmp_path, [NOON + 4 * 3600])
    assert run(tmp_path, append=True).version == 5
    assert times_in(tmp_path) == [[NOON], [NOON + 4 * 3600]]
    assert [record.number for record in open_table(tmp_path / "table").read_minibatches([1, 0])] == [1, 0]


def test_notes_say_what_to_look_at_in_the_source(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text('time,id,price,note\n1609502400,1,,"a\nb"\n1609502401,2,3,\n1609502402,3,,\n')
    notes = run(tmp_path, source="rows.csv", realvalue_factors=["price"]).notes
    assert notes[0].startswith(f"{tmp_path / 'rows.csv'}: values with line breaks: 1. The longest has 2 lines (row 0,")
    assert notes[1:] == ["nulls that became 0: price 2"]


def test_a_brew_that_failed_succeeds_when_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path, [NOON, NOON + 1, NOON + 2])
    run(tmp_path, result="straight")
    with monkeypatch.context() as broken:
        broken.setattr(stage, "commit_manifest", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            run(tmp_path)
    assert run(tmp_path).counts is not None
    assert files_in(tmp_path / "table") == files_in(tmp_path / "straight")


def test_lineage_names_the_sources_by_their_content(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    run(tmp_path)
    (source,) = open_directory(tmp_path / "table").lineage.sources
    assert (source.key, source.path) == ("source", str(tmp_path / "rows.parquet"))
    (file,) = open_table(tmp_path / "table").manifests[0].brewed_from["sources"]["source"]
    assert file["name"] == "rows.parquet"


def test_a_live_table_grows_by_whole_hours_and_refuses_old_rows(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON, NOON + 1])
    assert run(tmp_path, append=True).version == 1
    table = open_table(tmp_path / "table")
    assert (table.version, table.complete_until) == (1, NOON + 3600)
    write_rows(tmp_path, [NOON + 3599, NOON + 3600], "more.parquet")
    with pytest.raises(
        BadInput, match=rf"is complete until {show_hour(NOON + 3600)}, but there is a row of the hour {show_hour(NOON)}"
    ):
        run(tmp_path, append=True, source="more.parquet")
    keys = {"start_date": "2021-01-01T13:00", "end_date": "2021-01-01T16:00"}
    assert run(tmp_path, append=True, source="more.parquet", **keys).version == 2
    assert times_in(tmp_path) == [[NOON, NOON + 1], [NOON + 3600]]
    table = open_table(tmp_path / "table")
    assert table.complete_until == NOON + 4 * 3600
    assert table.id == table.manifests[0].table_id
    with pytest.raises(Conflict, match="belongs to another config"):
        run(tmp_path, append=True, batch_size=3)


@pytest.mark.parametrize("ending", ["csv", "jsonl"])
def test_an_hour_of_whole_or_missing_numbers_keeps_the_type_of_a_column(tmp_path: Path, ending: str) -> None:
    prices: list[list[float | None]] = [[2.5, 1.5], [7, 8], [None, None], [1, 0.5]]
    keys: dict[str, Any] = {"realvalue_factors": ["price"], "categorical_factors": ["ad"], "keys": ["time"]}
    for hour, pair in enumerate(prices):
        ad = None if hour == 2 else 5
        rows = [{"time": NOON + 3600 * hour + at, "ad": ad, "price": price} for at, price in enumerate(pair)]
        (tmp_path / f"{hour}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        lines = [",".join("" if value is None else str(value) for value in row.values()) for row in rows]
        (tmp_path / f"{hour}.csv").write_text("\n".join(["time,ad,price", *lines]) + "\n")
    for start in (0, 1):  # doubles first, or integers first
        for version, hour in enumerate(range(start, 4), 1):
            done = run(tmp_path, True, f"from {start}", source=f"{hour}.{ending}", **keys)
            assert done.version == version
        records = open_table(tmp_path / f"from {start}").read(["price"])
        found = [column(record, "price").tolist() for record in records]
        assert found == [[price or 0 for price in pair] for pair in prices[start:]]


def test_a_column_that_does_not_fit_a_live_table_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"time,id,hit\n{NOON},5,6\n")
    (tmp_path / "b.csv").write_text(f"time,id,hit\n{NOON + 3600},{2**64 - 1},7\n")
    (tmp_path / "c.csv").write_text(f"time,id,hit\n{NOON + 7200},5,six\n")
    keys = ["time", "hit"]
    run(tmp_path, True, source="a.csv", keys=keys)
    assert run(tmp_path, True, source="b.csv", keys=keys).version == 2  # an id is 64 bits
    with pytest.raises(Conflict, match=r"column 'hit' is int64 in the table and string in the source\. Correct the"):
        run(tmp_path, True, source="c.csv", keys=keys)


def test_only_a_table_with_hours_can_grow(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    with pytest.raises(ConfigError, match="append needs a recipe with time_field"):
        run(tmp_path, append=True, time_field=None)


def test_the_functions_for_scripts_make_the_table_of_the_recipe(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON + 3600, NOON + 1, NOON, NOON + 2])
    between = tmp_path / "sorted.parquet"
    brewing.map_date_field(
        src_table=tmp_path / "rows.parquet", result_table=between, time_field="time", granularity=700
    )
    made = parquet.read_table(between)
    assert made.schema.names == ["time", "id", DATE, GRANULAR]
    assert made.column(GRANULAR).to_pylist() == [NOON, NOON, NOON, NOON + 3600]
    converters = brewing.infer_converters(table=between, categorical_factors=["id"], keys=["time"])
    done = brewing.format_tensor_table(
        src_table=between, result_table=tmp_path / "made", converters=converters, batch_size=2
    )
    assert done.counts is not None
    run(tmp_path, granularity=700)
    assert times_in(tmp_path, "made") == times_in(tmp_path)
    with pytest.raises(Conflict, match=r"sorted.parquet already exists\. Remove it"):
        brewing.map_date_field(src_table=tmp_path / "rows.parquet", result_table=between, time_field="time")


def test_several_sorted_tables_are_joined(tmp_path: Path) -> None:
    configs = []
    for name, column in (("pages", "page"), ("clicks", "click")):
        raw = pa.table({"time": [NOON, NOON + 1], "hit": [2, 1], column: [20, 10]})
        parquet.write_table(raw, tmp_path / f"{name}.raw.parquet")
        between = tmp_path / f"{name}.parquet"
        brewing.map_date_field(
            src_table=str(tmp_path / f"{name}.raw.parquet"), result_table=between, time_field="time", pivot_column="hit"
        )
        converters = brewing.infer_converters(table=between, categorical_factors=[column])
        configs.append(brewing.TableConfig(table=between, converters=converters))
    brewing.format_tensor_table(source_table_configs=configs, result_table=tmp_path / "made", pivot_column="hit")
    (record,) = open_table(tmp_path / "made").read()
    assert record["page"].data.tolist() == record["click"].data.tolist() == [10, 20]


def test_a_table_that_is_not_sorted_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [1, 2], GRANULAR: [300, 0], DATE: [300, 0]}), tmp_path / "rows.parquet")
    converters = brewing.infer_converters(table=tmp_path / "rows.parquet", categorical_factors=["x"])
    with pytest.raises(
        BadInput, match=r"rows.parquet row 1 is not sorted: it belongs before the row above it in the order of"
    ):
        brewing.format_tensor_table(
            src_table=tmp_path / "rows.parquet", result_table=tmp_path / "made", converters=converters
        )


def test_format_tensor_table_takes_one_kind_of_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="give src_table and converters, or source_table_configs, but not both"):
        brewing.format_tensor_table(result_table=tmp_path / "made", src_table="x.parquet")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"batch_size": 0}, "batch_size must be at least 1, got 0"),
        ({"compression": "zip"}, "compression must be 'zstd', .*, got 'zip'"),
        ({"converters": {}}, "a table has no converters"),
    ],
)
def test_the_functions_for_scripts_refuse_what_a_recipe_does(
    tmp_path: Path, keys: dict[str, Any], message: str
) -> None:
    parquet.write_table(pa.table({"x": [3]}), tmp_path / "rows.parquet")
    converters = brewing.infer_converters(table=tmp_path / "rows.parquet", realvalue_factors=["x"])
    given = {"converters": converters, **keys}
    with pytest.raises(ConfigError, match=message):
        brewing.format_tensor_table(src_table=tmp_path / "rows.parquet", result_table=tmp_path / "made", **given)
    assert not (tmp_path / "made").exists()


@pytest.mark.parametrize(("options", "message"), [({}, 'give "words" or "ngrams"'), ({"word": 1}, "unknown key")])
def test_text_options_are_checked_for_scripts_too(tmp_path: Path, options: dict[str, int], message: str) -> None:
    parquet.write_table(pa.table({"title": ["tea"]}), tmp_path / "rows.parquet")
    with pytest.raises((ConfigError, UnknownKey), match=f"text_factors.title.*: {message}"):
        brewing.infer_converters(table=tmp_path / "rows.parquet", text_factors={"title": options})


def test_rows_without_dates_make_an_offline_table(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [3, 1, 3]}), tmp_path / "rows.parquet")
    converters = brewing.infer_converters(table=tmp_path / "rows.parquet", realvalue_factors=["x"])
    brewing.format_tensor_table(
        src_table=tmp_path / "rows.parquet", result_table=tmp_path / "made", converters=converters, pivot_column="x",
        batch_size=1, memory_limit="100MB",
    )  # fmt: skip
    assert [column(record, "x").tolist() for record in open_table(tmp_path / "made").read()] == [[1], [3, 3]]


def test_an_empty_source_leaves_no_sorted_file(tmp_path: Path) -> None:
    write_rows(tmp_path, [])
    with pytest.raises(BadInput, match=r"rows.parquet: no rows"):
        brewing.map_date_field(
            src_table=tmp_path / "rows.parquet", result_table=tmp_path / "sorted.parquet", time_field="time"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet"]


def test_the_command_reports_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path, [NOON, NOON + 1, NOON + 2])
    recipe = tmp_path / "clicks.json"
    recipe.write_text(json.dumps({**RECIPE, "pivot_column": "time", "granularity": 1}))
    brew_command(str(recipe), conf=['{"batch_size": 3}'])
    assert "clicks: version 1, 3 examples in 1 minibatch\n" in capsys.readouterr().out
    brew_command(str(recipe), conf=['{"batch_size": 3}'])
    assert "already finished, nothing to do" in capsys.readouterr().out
    brew_command(str(recipe), append=True, out=str(tmp_path / "live"))
    assert "live: version 1, 3 examples in 2 minibatches" in capsys.readouterr().out


def test_a_live_table_of_samovar_0_2_with_a_pivot_grows_without_marks_of_groups(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_rows(tmp_path, [NOON, NOON + 1])
    with monkeypatch.context() as patch:
        patch.setattr(BrewPlan.__init__, "__defaults__", (None, (), False))
        run(tmp_path, append=True, pivot_column="id")
    assert open_table(tmp_path / "table").columns == ["id", "time"]
    write_rows(tmp_path, [NOON + 3600])
    assert run(tmp_path, append=True, pivot_column="id").version == 2
    assert open_table(tmp_path / "table").columns == ["id", "time"]
    run(tmp_path, append=True, pivot_column="id", result="new")
    assert open_table(tmp_path / "new").columns == ["id", "time", "group_start"]


def test_a_column_with_the_name_of_the_marks_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"time": [NOON], "id": [1], "group_start": [1.0]}), tmp_path / "rows.parquet")
    with pytest.raises(ConfigError, match="'group_start' is made by every table with a pivot"):
        run(tmp_path, pivot_column="id", realvalue_factors=["group_start"])
    assert run(tmp_path, realvalue_factors=["group_start"]).version == 1
