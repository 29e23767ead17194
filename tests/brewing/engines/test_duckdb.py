"""What only the DuckDB engine does: it spills to disk, and respects a limit."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar.brewing.engines.duckdb import DuckDBEngine
from samovar.brewing.order import Order
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
