"""The format pages suffice: readers written from them alone read what Samovar writes."""

import contextlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch
from tests.docs.readers import result_directory, snapshot, tensor_table

import samovar
from samovar.brewing.brew import load_recipe, make_table
from samovar.config.identity import FREE_KEYS
from samovar.results import ResultDirectory, ResultPlan, Source, begin
from samovar.store import LocalStore

RECIPE: dict[str, Any] = {
    "source": "log.jsonl",
    "categorical_factors": ["user", "interests"],
    "unravelled_categorical_factors": ["visited"],
    "hashed_factors": ["url"],
    "text_factors": {"title": {"words": 2}},
    "realvalue_factors": ["price", "place"],
    "keys": ["hit", "url"],
    "batch_size": 7,
}


def write_log(path: Path, first_hour: int, num_hours: int) -> None:
    """Rows with missing values, many equal ids, and ids beyond 2**63."""
    with path.open("w") as file:
        for hour in range(first_hour, first_hour + num_hours):
            for row in range(20):
                line = {
                    "time": 1_767_225_600 + hour * 3600 + row * 60,
                    "hit": f"{hour}-{row}" if row % 4 else None,
                    "user": 2**64 - 1 - row % 3,
                    "interests": [[row, 1], [], [2]][: row % 4],
                    "visited": list(range(row % 3)),
                    "url": f"page-{row % 5}" if row % 5 else None,
                    "title": "tea for two" if row % 2 else None,
                    "price": row / 3 if row % 6 else None,
                    "place": [row, row + 0.5],
                }
                print(json.dumps(line), file=file)


def brew_table(folder: Path, config: dict[str, Any], append: bool = False) -> Path:
    make_table(load_recipe(config, "recipe", folder), folder / "table", append=append)
    return folder / "table"


def assert_same_rows(directory: Path) -> list[tensor_table.Row]:
    """The page's reader and Samovar's agree."""
    ours, theirs = list(samovar.open_table(directory).read()), list(tensor_table.read_table(directory))
    assert len(ours) == len(theirs) > 0
    for record, row in zip(ours, theirs, strict=True):
        assert (record.hour, record.num_examples) == (row.hour, row.num_examples)
        assert list(record) == list(row.values)
        for name, value in record.items():
            assert_same_values(value, row.values[name])
    return theirs


def plain(value: Any) -> Any:
    if isinstance(value, tensor_table.Bag):
        return [value.data, value.data_len]
    return value if isinstance(value, np.ndarray) else value.to_pylist()


def assert_same_values(ours: Any, theirs: Any) -> None:
    if isinstance(ours, samovar.Bag):
        np.testing.assert_array_equal(ours.data.numpy().view(np.uint64), theirs.data)
        np.testing.assert_array_equal(ours.data_len.numpy(), theirs.data_len)
    elif isinstance(ours, torch.Tensor):
        np.testing.assert_array_equal(ours.numpy(), theirs)
    else:
        assert ours.to_pylist() == theirs.to_pylist()


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_another_reader_of_tensor_tables(quick_path: Path, compression: str) -> None:
    write_log(quick_path / "log.jsonl", 0, 3)
    table = brew_table(quick_path, {**RECIPE, "time_field": "time", "compression": compression})
    rows = assert_same_rows(table)
    assert {row.hour for row in rows} == {1_767_225_600 + hour * 3600 for hour in range(3)}
    kinds = {type(value) for row in rows for value in row.values.values()}
    assert len(kinds) == 3


def test_any_reader_of_parquet_opens_the_files_of_a_table(quick_path: Path) -> None:
    write_log(quick_path / "log.jsonl", 0, 2)
    directory = brew_table(quick_path, {**RECIPE, "time_field": "time"})
    opened = pq.read_table(directory / "segments/000001.e1/0000.parquet")
    rows = list(tensor_table.read_table(directory))
    types = {column.name: column.source_type for column in samovar.open_table(directory).schema.columns}
    assert opened["_hour"].to_pylist() == [row.hour for row in rows]
    assert opened["_num_examples"].to_pylist() == [row.num_examples for row in rows]
    for name in rows[0].values:
        for cell, row in zip(opened[name].to_pylist(), rows, strict=True):
            np.testing.assert_equal(plain(tensor_table.read_cell(cell, types[name])), plain(row.values[name]))


def test_another_reader_of_a_table_without_hours(quick_path: Path) -> None:
    write_log(quick_path / "log.jsonl", 0, 1)
    assert {row.hour for row in assert_same_rows(brew_table(quick_path, RECIPE))} == {None}


def test_another_reader_of_a_table_that_grows(quick_path: Path) -> None:
    for hour in range(3):
        write_log(quick_path / "log.jsonl", hour, 1)
        table = brew_table(quick_path, {**RECIPE, "time_field": "time"}, append=True)
    (quick_path / "log.jsonl").write_text("")
    quiet = {**RECIPE, "time_field": "time", "end_date": "2026-01-01T05:00"}
    assert len(assert_same_rows(brew_table(quick_path, quiet, append=True))) == 9
    assert json.loads((table / "manifest/000004.e4.json").read_text())["complete_until"] == 1_767_225_600 + 5 * 3600


STATE: dict[str, Any] = {
    "weights": torch.arange(6, dtype=torch.float32).reshape(2, 3),
    "half": torch.tensor([0.5, 2.0], dtype=torch.bfloat16),
    "empty": torch.zeros(0, 4),
    "ids": np.array([1, 2**64 - 1], np.uint64),
    "flags": np.array([True, False]),
    "complex": np.array([1 + 2j]),
    "by_number": {1: "one", (2, None): [3.5, -0.0]},
    "$odd": {"a", "b"},
    "more": (frozenset({1}), b"\x00\xff", float("nan"), float("-inf"), 1j, np.float32(0.1), np.int64(7)),
    "plain": {"text": "чай", "none": None, "yes": True, "large": 2**80},
}


def make_unfinished(folder: Path) -> ResultDirectory:
    """Two snapshots, with a log, and a line that was lost."""
    directory = ResultDirectory(LocalStore(folder))
    with contextlib.suppress(KeyboardInterrupt), begin(directory, ResultPlan("walk", {"seed": 1})) as result:
        result.restore()
        for number in range(2):
            result.append("metrics.jsonl", {"number": number})
            result.save({**STATE, "number": number}, {"next": number + 1})
        result.append("metrics.jsonl", {"number": "lost"})
        raise KeyboardInterrupt
    return directory


def test_another_reader_of_snapshots(quick_path: Path) -> None:
    directory = make_unfinished(quick_path / "walk")
    manifest, state = snapshot.read_newest(quick_path / "walk")
    assert (manifest["format"], manifest["position"]) == (2, {"next": 2})
    assert_same_state(state, {**STATE, "number": 1})
    assert_same_state(state, directory.load_model().tree)
    assert result_directory.Directory(quick_path / "walk").read_log("metrics.jsonl") == [{"number": 0}, {"number": 1}]


def test_another_reader_of_result_directories(quick_path: Path) -> None:
    directory = make_unfinished(quick_path / "walk")
    page = result_directory.Directory(quick_path / "walk")
    assert not page.is_finished
    with begin(directory, ResultPlan("walk", {"seed": 1})) as result:
        result.restore()
        result.finish(STATE, {"next": 2})
    assert page.is_finished
    files = page.read_inventory()
    assert {"logs/metrics.jsonl", "model_config.json", "lineage.json", "model/state.json"} <= files.keys()
    assert_same_state(snapshot.read_state(quick_path / "walk/model"), STATE)
    status = json.loads((quick_path / "walk/status.json").read_text())
    assert status.keys() == {"format", "state", "kind", "holder", "heartbeat", "position", "error"}
    assert (status["format"], status["state"], status["position"]) == (1, "finished", {"next": 2})


def test_another_reader_computes_the_same_ids(quick_path: Path) -> None:
    config = {
        "model": {"lr": 0.1, "progress": 3, "emb.lr": 1},
        "train_data": {"table": "clicks", "num_parsers": 3, "targets": ["a", "чай"]},
        "evaluation": {"eval_confs": [{"name": "x", "max_memory": 5}]},
        "source": ["first", "second"],
        "cloned_from": {"config": "parent.json"},
        "snapshotter": {},
        "progress": False,
    }
    sources = [
        Source("train_data.table", "clicks", "0123", 2),
        Source("source[0]", "first", "45"),
        Source("source[1]", "second", "67"),
    ]
    for name, kind in (("walk", "walk"), ("stage", "stage:walk")):
        plan = ResultPlan(kind, config, b"script", {"words.txt": b"words"}, sources)
        with begin(ResultDirectory(LocalStore(quick_path / name)), plan) as result:
            result.restore()
            result.finish(None, 1)
    write_log(quick_path / "log.jsonl", 0, 1)
    whole = brew_table(quick_path, RECIPE)
    for path in (quick_path / "walk", quick_path / "stage", whole):
        assert result_directory.compute_id(path) == ResultDirectory(LocalStore(path)).id


def assert_same_state(left: Any, right: Any) -> None:
    assert type(left) is type(right)
    if isinstance(left, dict):
        assert list(left) == list(right)
        for key in left:
            assert_same_state(left[key], right[key])
    elif isinstance(left, list | tuple):
        assert len(left) == len(right)
        for one, other in zip(left, right, strict=True):
            assert_same_state(one, other)
    elif isinstance(left, torch.Tensor):
        assert left.dtype == right.dtype
        assert torch.equal(left, right)
    elif isinstance(left, np.ndarray | np.generic | float | complex):
        np.testing.assert_array_equal(np.asarray(left), np.asarray(right), strict=True)
    else:
        assert left == right


def test_every_key_that_cannot_change_a_result_is_in_the_page() -> None:
    named = {*result_directory.FREE, *(f"*.{key}" for key in result_directory.FREE_ANYWHERE), "cloned_from"}
    assert named == set(FREE_KEYS)
    page = Path(__file__).parents[2].joinpath("docs/result_directory.md").read_text()
    assert [key for key in FREE_KEYS if f"`{key.removeprefix('*.')}`" not in page] == []
