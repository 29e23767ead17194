"""What only the DuckDB engine does: it spills to disk, and respects a limit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.clock import Clock
from samovar.brewing.engines.duckdb import DuckDBEngine, _Session
from samovar.brewing.order import Order
from samovar.brewing.progress import Progress
from samovar.brewing.rates import Rate
from samovar.brewing.sources import ROW
from samovar.errors import StoreError
from samovar.testing.engine import make_query

NUM_ROWS = 400_000


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """Rows that take far more than the limits below."""
    rng = np.random.Generator(np.random.Philox(1))
    columns = {f"x{number}": rng.integers(0, 2**63, NUM_ROWS) for number in range(20)}
    parquet.write_table(pa.table(columns), tmp_path / "rows.parquet")
    return tmp_path / "rows.parquet"


def test_rows_that_do_not_fit_are_spilled_and_nothing_stays_behind(source: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    engine = DuckDBEngine(30_000_000, temp_folder=str(spill))
    query = make_query(source, Order(is_online=False, pivot="x0"), columns=("x1",))
    stream = engine.sorted(query)
    keys = [next(stream).column("x0").to_numpy()]
    assert [path.name.startswith("samovar-brew-") for path in spill.iterdir()] == [True]
    keys += [batch.column("x0").to_numpy() for batch in stream]
    np.testing.assert_array_equal(np.concatenate(keys), np.sort(parquet.read_table(source).column("x0").to_numpy()))
    assert list(spill.iterdir()) == []


def test_a_stream_that_is_left_early_leaves_nothing_behind(source: Path, tmp_path: Path) -> None:
    spill = tmp_path / "spill"
    spill.mkdir()
    engine = DuckDBEngine(temp_folder=str(spill))
    stream = engine.sorted(make_query(source, Order(is_online=False, pivot="x0"), columns=()))
    assert next(stream).column(ROW).null_count == 0
    stream.close()
    assert list(spill.iterdir()) == []


def test_a_limit_that_is_too_small_says_so(source: Path, tmp_path: Path) -> None:
    engine = DuckDBEngine(2_000_000)
    query = make_query(source, Order(is_online=False, pivot="x0"))
    with pytest.raises(StoreError, match=r"(?s)rows.parquet: DuckDB ran out of memory.*; raise memory_limit"):
        list(engine.sorted(query))


def test_rates_never_compare_every_row_with_every_time(tmp_path: Path) -> None:
    """DuckDB cannot count the rows of a CSV file beforehand, and took them for few: minutes for 60,000 rows."""
    (tmp_path / "rows.csv").write_text("time,ad,clicked\n1600000000,7,1\n1600086400,7,0\n")
    rate = Rate("rate", "clicked", ("ad",), 86400, 3600, 10.0)
    query = make_query(tmp_path / "rows.csv", Order(is_online=True), clock=Clock("time"), rates=(rate,))
    connection = DuckDBEngine(30_000_000)._connect(str(tmp_path))
    with connection:
        found = connection.execute(f"EXPLAIN {_Session(connection, query, Progress()).sql()}").fetchall()
    plan = str(found).lower().replace("_", " ")
    assert plan.count("asof join") == 4
    assert "loop join" not in plan
