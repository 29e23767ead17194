"""brew and table, as a user types them."""

import json
from pathlib import Path

import pyarrow.parquet as pq
from tests.cli.commands import samovar
from tests.tables.making import make_table

from samovar.store import LocalStore


def test_table_shows_schema_versions_hours_batch_sizes_and_bytes(tmp_path: Path) -> None:
    make_table(LocalStore(tmp_path), 20, num_examples=(300, 300, 300, 5))
    shown = samovar("table", tmp_path)
    assert shown.returncode == 0, shown.stderr
    for expected in (
        "version      1 of 1",
        "20 with 4,525 examples",
        "7, 1970-01-01T00:00 to 1970-01-01T06:00",
        "banner   categorical  1     uint64",
        "fewer than 300          5            25.00%",
    ):
        assert expected in shown.stdout, shown.stdout


def test_table_prints_one_minibatch_readably(tmp_path: Path) -> None:
    make_table(LocalStore(tmp_path), 4)
    shown = samovar("table", tmp_path, "--minibatch", 2).stdout
    assert "minibatch 2 of hour 1970-01-01T00:00: 5 examples" in shown
    assert "hit 2 0, hit 2 1, hit 2 2, None, hit 2 4" in shown
    assert "1, 1, 1, 1, 1" in shown
    beyond = samovar("table", tmp_path, "--minibatch", 4)
    assert beyond.returncode == 2
    assert "has minibatches 0 to 3, got 4" in beyond.stderr


def test_table_exports_ordinary_rows(tmp_path: Path) -> None:
    make_table(LocalStore(tmp_path / "table"), 4)
    done = samovar("table", tmp_path / "table", "--export", tmp_path / "rows.parquet")
    assert done.stdout == f"{tmp_path}/rows.parquet: 610 rows\n"
    assert pq.read_table(tmp_path / "rows.parquet").num_rows == 610


def test_table_says_when_there_is_none(tmp_path: Path) -> None:
    missing = samovar("table", tmp_path / "none")
    assert (missing.returncode, missing.stdout) == (2, "")
    assert "does not exist; expected a table" in missing.stderr


def test_recipe_drafts_what_brew_takes(tmp_path: Path) -> None:
    rows = "".join(f"2021-01-{n},{n % 5},{n / 2}\n" for n in range(10, 32))
    (tmp_path / "rows.csv").write_text(f"day,user_id,price\n{rows}")
    printed = samovar("recipe", tmp_path / "rows.csv")
    assert json.loads(printed.stdout)["columns"] == {
        "day": "time", "user_id": "id", "price": {"number": {"scale": "running"}},
    }  # fmt: skip
    assert "  user_id  id " in printed.stderr
    drafted = tmp_path / "drafted.json"
    written = samovar("recipe", tmp_path / "rows.csv", "--out", drafted)
    assert written.stdout == f"{drafted}: brew it with samovar brew {drafted}\n"
    assert drafted.read_text() == printed.stdout
    brewed = samovar("brew", drafted)
    assert "drafted: version 1, 22 examples in 22 minibatches" in brewed.stdout, brewed.stderr
