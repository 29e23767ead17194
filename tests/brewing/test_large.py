"""Sources larger than memory, and brews that are killed."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from samovar.errors import NotAResult
from samovar.tables import open_table

RUNNER = Path(__file__).parent / "brew_and_die.py"
LIMIT_BYTES = 200_000_000
NEVER = 2**60


def write_source(folder: Path, num_rows: int, num_files: int, **keys: Any) -> None:
    rng = np.random.Generator(np.random.Philox(1))
    for number in range(num_files):
        columns: dict[str, Any] = {f"x{n}": rng.integers(0, 2**63, num_rows) for n in range(20)}
        offsets = pa.array(np.arange(num_rows + 1, dtype=np.int32) * 5)
        columns["list"] = pa.ListArray.from_arrays(offsets, pa.array(rng.integers(0, 2**63, num_rows * 5)))
        columns["time"] = rng.integers(1609459200, 1609459200 + 3600 * 24, num_rows)
        parquet.write_table(pa.table(columns), folder / f"{number}.parquet", compression="lz4")
    factors = [name for name in columns if name != "time"]
    recipe = {"source": "*.parquet", "time_field": "time", "categorical_factors": factors, "keys": ["time"], **keys}
    (folder / "recipe.json").write_text(json.dumps(recipe))


def brew_in_child(folder: Path, num_minibatches: int = NEVER) -> tuple[int, int | None]:
    """Exit code, and the peak of resident memory in bytes. The child prints it itself: the kernel's number includes the
    memory of the parent before the exec."""
    command = [sys.executable, str(RUNNER), str(folder), str(num_minibatches)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, int(done.stdout) * 1024 if done.stdout else None


def test_a_killed_brew_leaves_no_table_and_the_next_one_makes_it(tmp_path: Path) -> None:
    write_source(tmp_path, 3000, 1, batch_size=100)
    assert brew_in_child(tmp_path, 20)[0] == -9
    with pytest.raises(NotAResult, match="none that was brewed to the end"):
        open_table(tmp_path / "table")
    assert brew_in_child(tmp_path)[0] == 0
    table = open_table(tmp_path / "table")
    assert table.num_examples == 3000
    straight = {path.name: path.read_bytes() for path in (tmp_path / "table" / "segments").rglob("*.parquet")}
    (tmp_path / "table").rename(tmp_path / "killed once")
    assert brew_in_child(tmp_path)[0] == 0
    again = {path.name: path.read_bytes() for path in (tmp_path / "table" / "segments").rglob("*.parquet")}
    assert again == straight


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_source_of_ten_times_the_memory_limit_brews_within_it(tmp_path: Path) -> None:
    row_bytes = 8 * 20 + 8 * 5 + 4 + 8
    num_files = 10
    num_rows = 10 * LIMIT_BYTES // row_bytes // num_files + 1
    write_source(tmp_path, num_rows, num_files, memory_limit=LIMIT_BYTES)
    code, peak_bytes = brew_in_child(tmp_path)
    assert code == 0
    assert peak_bytes is not None
    assert open_table(tmp_path / "table").num_examples == num_rows * num_files
    print(f"peak resident memory: {peak_bytes:,} bytes with a limit of {LIMIT_BYTES:,}")
    assert peak_bytes < LIMIT_BYTES + 512 * 2**20
