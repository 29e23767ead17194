import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.brew import brew
from samovar.brewing.engines.duckdb import DuckDBEngine
from samovar.brewing.formats import count_rows
from samovar.brewing.progress import Progress, State
from samovar.brewing.recipe import Recipe
from samovar.brewing.sources import find_source
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
    brew(Recipe.load(tree, "recipe.json"), tree, folder, folder / "table", progress=progress)
    return [*progress.ends, progress.state][1:]


def test_of_parquet_bytes_percents_and_rows_are_known(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    size = (tmp_path / "rows.parquet").stat().st_size
    states = brew_and_record(tmp_path, "rows.parquet", time_field="time")
    assert states[0] == State("fingerprinting sources", size, size, "bytes")
    assert states[1].phase == "learning types"
    assert (states[2].phase, states[2].total, states[2].unit) == ("sorting", 100, "percent")
    assert 0 <= states[2].done <= 100
    assert states[3:] == [State("writing", NUM_ROWS, NUM_ROWS, "rows")]


def test_of_text_rows_are_counted_while_they_are_sorted(tmp_path: Path) -> None:
    csv.write_csv(ROWS, tmp_path / "rows.csv")
    states = brew_and_record(tmp_path, "rows.csv", time_field="time")
    assert states[2:] == [State("sorting", NUM_ROWS), State("writing", NUM_ROWS, NUM_ROWS)]


def test_what_needs_no_sort_has_no_phase_of_it(tmp_path: Path) -> None:
    csv.write_csv(ROWS, tmp_path / "rows.csv")
    assert [state.phase for state in brew_and_record(tmp_path, "rows.csv")][2:] == ["writing"]


def test_between_two_dates_the_number_of_rows_is_not_known(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "rows.parquet")
    states = brew_and_record(tmp_path, "rows.parquet", time_field="time", end_date="2023-11-14T23:00:00")
    assert states[-1].phase == "writing"
    assert states[-1].total is None


def test_rows_of_parquet_and_arrow_are_counted_and_of_text_not(tmp_path: Path) -> None:
    parquet.write_table(ROWS, tmp_path / "1.parquet")
    feather.write_feather(ROWS, tmp_path / "2.arrow", compression="uncompressed", chunksize=300)
    with pa.ipc.new_stream(tmp_path / "3.arrow", ROWS.schema) as stream:
        stream.write_table(ROWS)
    assert count_rows(find_source(["1.parquet", "2.arrow", "3.arrow"], tmp_path)) == 3 * NUM_ROWS
    (tmp_path / "4.jsonl").write_text(json.dumps({"banner": 1}))
    assert count_rows(find_source(["1.parquet", "4.jsonl"], tmp_path)) is None


def test_nobody_asks_duckdb_after_a_failed_sort(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parquet.write_table(ROWS.append_column("price", pa.array(["x"] * NUM_ROWS)), tmp_path / "rows.parquet")
    tree = {"source": "rows.parquet", "categorical_factors": ["banner"], "time_field": "time"}
    progress = Progress()
    monkeypatch.setattr(DuckDBEngine, "_connect", _connect_without_files)
    with pytest.raises(SamovarError):
        brew(Recipe.load(tree, "recipe.json"), tree, tmp_path, tmp_path / "table", progress=progress)
    assert progress.state.phase == "sorting"  # and not an error of a closed connection


def _connect_without_files(self: DuckDBEngine, spill: str):  # type: ignore[no-untyped-def]  # duckdb's own type
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET disabled_filesystems = 'LocalFileSystem'")
    return connection
