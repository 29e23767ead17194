"""Brewing as a stage: directories, caches, live tables, the functions for scripts, the command."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar import brew
from samovar.brew import stage
from samovar.brew.order import DATE, GRANULAR
from samovar.brew.recipe import Recipe
from samovar.brew.stage import Brewed
from samovar.cli.brew import brew as brew_command
from samovar.errors import BadInput, ConfigError, Conflict, NotOurs
from samovar.results import open_directory
from samovar.tables import Record, open_table
from samovar.tables.hours import show_hour

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


def run(folder: Path, append: bool = False, result: str = "table", **keys: Any) -> Brewed:
    tree = {**RECIPE, **keys}
    return stage.brew(Recipe.load(tree, "recipe.json"), tree, folder, folder / result, append=append)


def times_in(folder: Path, result: str = "table") -> list[list[int]]:
    return [list(column(record, "time").to_pylist()) for record in open_table(folder / result).read(["time"])]


def column(record: Record, name: str) -> Any:
    return record[name]


def files_in(folder: Path) -> dict[str, bytes]:
    names = ("manifest", "segments")
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for name in names
        for path in sorted((folder / name).rglob("*"))
        if path.is_file()
    }


def test_a_recipe_becomes_a_table_that_is_not_made_twice(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON + 3600, NOON + 1, NOON, NOON + 2])
    done = run(tmp_path)
    assert done.tally is not None
    assert (done.tally.num_rows, done.tally.num_batches, done.tally.num_short_batches) == (4, 3, 2)
    assert times_in(tmp_path) == [[NOON, NOON + 1], [NOON + 2], [NOON + 3600]]
    assert list(open_table(tmp_path / "table").hours) == [NOON, NOON + 3600]
    before = files_in(tmp_path / "table")
    assert run(tmp_path, memory_limit="1GB").tally is None
    assert files_in(tmp_path / "table") == before


def test_the_same_rows_give_the_same_bytes_wherever_they_lie(tmp_path: Path) -> None:
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


def test_a_mistake_leaves_no_directory_and_a_failure_no_table(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    with pytest.raises(LookupError, match="no column 'idd'"):
        run(tmp_path, categorical_factors=["idd"])
    assert not (tmp_path / "table").exists()
    with pytest.raises(BadInput, match="no rows"):
        run(tmp_path, end_date="2020-01-01")
    with pytest.raises(NotOurs, match="has no version yet"):
        open_table(tmp_path / "table")
    status = open_directory(tmp_path / "table").status
    assert status is not None
    assert status.state == "failed"


def test_a_brewing_that_failed_succeeds_when_run_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_rows(tmp_path, [NOON, NOON + 1, NOON + 2])
    run(tmp_path, result="straight")
    with monkeypatch.context() as broken:
        broken.setattr(stage, "commit_manifest", lambda *_: (_ for _ in ()).throw(RuntimeError("killed")))
        with pytest.raises(RuntimeError, match="killed"):
            run(tmp_path)
    assert run(tmp_path).tally is not None
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
        BadInput, match=rf"is complete until {show_hour(NOON + 3600)}, and found a row of the hour {show_hour(NOON)}"
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


def test_only_a_table_of_hours_can_grow(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON])
    with pytest.raises(ConfigError, match="--append: the recipe has no time_field"):
        run(tmp_path, append=True, time_field=None)


def test_the_functions_for_scripts_make_the_table_of_the_recipe(tmp_path: Path) -> None:
    write_rows(tmp_path, [NOON + 3600, NOON + 1, NOON, NOON + 2])
    between = tmp_path / "sorted.parquet"
    brew.map_date_field(src_table=tmp_path / "rows.parquet", result_table=between, time_field="time", granularity=700)
    made = parquet.read_table(between)
    assert made.schema.names == ["time", "id", DATE, GRANULAR]
    assert made.column(GRANULAR).to_pylist() == [NOON, NOON, NOON, NOON + 3600]
    converters = brew.infer_converters(table=between, categorical_factors=["id"], keys=["time"])
    done = brew.format_tensor_table(
        src_table=between, result_table=tmp_path / "made", converters=converters, batch_size=2
    )
    assert done.tally is not None
    run(tmp_path, granularity=700)
    assert times_in(tmp_path, "made") == times_in(tmp_path)
    with pytest.raises(Conflict, match="exists already, and results are never overwritten"):
        brew.map_date_field(src_table=tmp_path / "rows.parquet", result_table=between, time_field="time")


def test_several_made_tables_are_joined(tmp_path: Path) -> None:
    configs = []
    for name, column in (("pages", "page"), ("clicks", "click")):
        raw = pa.table({"time": [NOON, NOON + 1], "hit": [2, 1], column: [20, 10]})
        parquet.write_table(raw, tmp_path / f"{name}.raw.parquet")
        between = tmp_path / f"{name}.parquet"
        brew.map_date_field(
            src_table=str(tmp_path / f"{name}.raw.parquet"), result_table=between, time_field="time", pivot_column="hit"
        )
        converters = brew.infer_converters(table=between, categorical_factors=[column])
        configs.append(brew.TableConfig(table=between, converters=converters))
    brew.format_tensor_table(source_table_configs=configs, result_table=tmp_path / "made", pivot_column="hit")
    (record,) = open_table(tmp_path / "made").read()
    assert record["page"].data.tolist() == record["click"].data.tolist() == [10, 20]


def test_a_table_that_is_not_sorted_is_refused(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [1, 2], GRANULAR: [300, 0], DATE: [300, 0]}), tmp_path / "rows.parquet")
    converters = brew.infer_converters(table=tmp_path / "rows.parquet", categorical_factors=["x"])
    with pytest.raises(BadInput, match=r"rows.parquet row 1: comes before the row above it in the order of"):
        brew.format_tensor_table(
            src_table=tmp_path / "rows.parquet", result_table=tmp_path / "made", converters=converters
        )


def test_format_tensor_table_takes_one_way_of_input(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected src_table with converters, or source_table_configs"):
        brew.format_tensor_table(result_table=tmp_path / "made", src_table="x.parquet")


def test_rows_without_dates_make_an_offline_table(tmp_path: Path) -> None:
    parquet.write_table(pa.table({"x": [3, 1, 3]}), tmp_path / "rows.parquet")
    converters = brew.infer_converters(table=tmp_path / "rows.parquet", realvalue_factors=["x"])
    brew.format_tensor_table(
        src_table=tmp_path / "rows.parquet", result_table=tmp_path / "made", converters=converters, pivot_column="x",
        batch_size=1, memory_limit="100MB",
    )  # fmt: skip
    assert [column(record, "x").tolist() for record in open_table(tmp_path / "made").read()] == [[1], [3, 3]]


def test_an_empty_source_leaves_no_sorted_file(tmp_path: Path) -> None:
    write_rows(tmp_path, [])
    with pytest.raises(BadInput, match=r"rows.parquet: no rows"):
        brew.map_date_field(
            src_table=tmp_path / "rows.parquet", result_table=tmp_path / "sorted.parquet", time_field="time"
        )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["rows.parquet"]


def test_the_command_tells_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_rows(tmp_path, [NOON, NOON + 1, NOON + 2])
    recipe = tmp_path / "clicks.json"
    recipe.write_text(json.dumps({**RECIPE, "pivot_column": "time", "granularity": 1}))
    brew_command(recipe, conf=['{"batch_size": 3}'])
    assert "clicks: version 1, 3 rows in 1 minibatches" in capsys.readouterr().out
    brew_command(recipe, conf=['{"batch_size": 3}'])
    assert "finished already, nothing to do" in capsys.readouterr().out
    brew_command(recipe, append=True, out=tmp_path / "live")
    assert "live: version 1, 3 rows in 2 minibatches" in capsys.readouterr().out
