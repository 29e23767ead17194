"""Training with replay, and with running scales: what must not change a bit."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from tests.training.test_train_hash_embeddings import SCRIPT
from tests.training.toys import (
    FIRST,
    HOUR,
    ONLINE,
    SCHEMA,
    changed,
    make_hours,
    make_toy,
    metrics,
    run_well,
    write_table,
)

from samovar.errors import ConfigError
from samovar.hours import show_hour
from samovar.provenance.verify import verify_resume
from samovar.tables import TableSchema
from samovar.tables.schema import ColumnSchema
from samovar.training.schema import load_config

REPLAY = {"train_data": {"replay": {"rows": 2, "window": "3h"}}}
SCALED = TableSchema(
    tuple(
        ColumnSchema(each.name, each.kind, each.rank, each.source_type, {"role": "number", "scale": "running"})
        if each.name == "price"
        else each
        for each in SCHEMA.columns
    ),
    SCHEMA.sort_key,
)


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1, 0, 2, 1, 1, 2]), SCALED)
    return quick_path


def test_kills_change_no_bit_of_a_run_with_replay_and_running_scales(folder: Path) -> None:
    done = verify_resume(make_toy(folder, ONLINE, REPLAY, SCRIPT), 10, folder / "verify")
    assert (done.num_kills, done.differences) == (10, [])


def test_replay_changes_the_model_and_counts_no_row_twice(folder: Path) -> None:
    request = make_toy(folder, ONLINE, {}, SCRIPT)
    plain, replayed = run_well(request), run_well(changed(request, "replayed", REPLAY))
    names = ("model/arrays.safetensors", "model/state.json")
    assert any((plain / name).read_bytes() != (replayed / name).read_bytes() for name in names)
    for left, right in zip(metrics(plain), metrics(replayed), strict=True):
        assert left.get("num_examples") == right.get("num_examples")
    files = [sorted(path.name for path in (each / "evaluation/log").iterdir()) for each in (plain, replayed)]
    assert files[0] == files[1]
    rows = [
        [len(pd.read_parquet(path)) for path in sorted((each / "evaluation/log").iterdir())]
        for each in (plain, replayed)
    ]
    assert rows[0] == rows[1]


def test_hours_that_come_later_change_no_bit(folder: Path) -> None:
    """Neither replay nor the scales may look ahead."""
    until = {"train_data": {"end_date": show_hour(FIRST + 5 * HOUR)}, "evaluation": None}
    request = changed(make_toy(folder, ONLINE, REPLAY, SCRIPT), "long", until)
    write_table(folder / "short_table", make_hours([2, 1, 0, 2, 1]), SCALED)
    short = changed(request, "short", {"train_data": {"table": "short_table"}})
    models = [run_well(each) / "model" for each in (request, short)]
    for name in ("state.json", "arrays.safetensors"):
        assert (models[0] / name).read_bytes() == (models[1] / name).read_bytes()


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"replay": {"window": "7"}},
            "train_data.replay: window must be a number of minutes, hours or days, such as 30m, 12h or 7d",
        ),
        ({"replay": {"rows": 0}}, "train_data.replay.rows must be at least 1"),
        ({"replay": {}, "epoch_count": 2}, "has the online key 'replay' and the offline key 'epoch_count'"),
    ],
)
def test_a_replay_that_cannot_be_is_refused(data: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load_config({"train_data": {"table": "clicks", **data}}, "config.json")


def test_replay_beside_merge_tables_is_refused() -> None:
    tables = [{"table": name, "targets": []} for name in "ab"]
    merged = {"merge_keys": ["hit"], "tables": [{**tables[0], "features": ["x"]}, tables[1]]}
    with pytest.raises(ConfigError, match="replay reads one table"):
        load_config({"train_data": {"merge_tables": merged, "replay": {}}}, "config.json")
