import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.engines.duckdb import DuckDBEngine
from samovar.brewing.progress import Progress, State
from samovar.brewing.sources import find_source, scan
from samovar.errors import SamovarError

NUM_ROWS = 5000
ROWS = pa.table({"time": np.arange(NUM_ROWS)[::-1] + 1_700_000_000, "banner": np.arange(NUM_ROWS)})


class Recorder(Progress):
    """Remembers how each phase ended."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[State] = []

    def begin(self, *args, **kwargs) -> None:  # type: ignore[no-untyped-def]  # whatever Progress takes
        self.ends.append(self.state)
        super().begin(*args, **kwargs)


def brew_and_record(folder: Path, name: str, **more: object) -> list[State]:
    tree = {"source": name, "categorical_factors": ["banner"], "batch_size": 100, **more}
    progress = Recorder()
    make_table(load_recipe(tree, "recipe.json", folder), folder / "table", progress=progress)
    return [*progress.ends, progress.state][1:]


def test_parquet_shows_bytes_then_percent_then_rows(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    size = (tmp_path / "rows.parquet").stat().st_size
    states = brew_and_record(tmp_path, "rows.parquet", time_field="time")
    assert states[0] == State("scanning sources", size, size, "bytes")
    assert (states[1].phase, states[1].total, states[1].unit) == ("sorting", 100, "percent")
    assert 0 <= states[1].done <= 100
    assert states[2:] == [State("writing", NUM_ROWS, NUM_ROWS, "rows")]


def test_text_shows_bytes_then_sorted_rows_then_written_rows(tmp_path: Path) -> None:
    csv.write_csv(ROWS, tmp_path / "rows.csv")
    size = (tmp_path / "rows.csv").stat().st_size
    states = brew_and_record(tmp_path, "rows.csv", time_field="time")
    assert states == [
        State("scanning sources", size, size, "bytes"),
        State("sorting", NUM_ROWS),
        State("writing", NUM_ROWS, NUM_ROWS),
    ]


def test_a_finished_table_shows_the_bytes_of_its_sources_again(tmp_path: Path) -> None:
    csv.write_csv(ROWS, tmp_path / "rows.csv")
    size = (tmp_path / "rows.csv").stat().st_size
    brew_and_record(tmp_path, "rows.csv")
    assert brew_and_record(tmp_path, "rows.csv") == [State("scanning sources", size, size, "bytes")]


def test_rows_in_their_own_order_have_no_sorting_phase(tmp_path: Path) -> None:
    csv.write_csv(ROWS, tmp_path / "rows.csv")
    assert brew_and_record(tmp_path, "rows.csv")[1:] == [State("writing", NUM_ROWS, NUM_ROWS)]


def test_between_two_dates_the_number_of_rows_is_not_known(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    states = brew_and_record(tmp_path, "rows.parquet", time_field="time", end_date="2023-11-14T23:00:00")
    assert states[-1].phase == "writing"
    assert states[-1].total is None


def test_rows_of_every_format_are_counted_by_the_scan(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "1.parquet")
    feather.write_feather(ROWS, tmp_path / "2.arrow", compression="uncompressed", chunksize=300)
    with pa.ipc.new_stream(tmp_path / "3.arrow", ROWS.schema) as stream:
        stream.write_table(ROWS)
    (tmp_path / "4.jsonl").write_text(json.dumps({"banner": 1}))
    csv.write_csv(ROWS, tmp_path / "5.csv")
    assert scan(find_source("*", tmp_path)).num_rows == 4 * NUM_ROWS + 1


def test_a_closed_duckdb_is_not_asked_for_progress(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(ROWS.append_column("price", pa.array(["x"] * NUM_ROWS)), tmp_path / "rows.parquet")
    tree = {"source": "rows.parquet", "categorical_factors": ["banner"], "time_field": "time"}
    progress = Progress()
    monkeypatch.setattr(DuckDBEngine, "_connect", _connect_without_files)
    with pytest.raises(SamovarError):
        make_table(load_recipe(tree, "recipe.json", tmp_path), tmp_path / "table", progress=progress)
    assert progress.state.phase == "sorting"  # and no error of a closed connection


def _connect_without_files(self: DuckDBEngine, spill: str):  # type: ignore[no-untyped-def]  # duckdb's own type
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    return connection
