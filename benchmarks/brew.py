"""Brewing two million rows: Samovar against DuckDB, which only sorts them into a Parquet file.

Both get the same source, memory limit, order and all cores; each runs in its own process.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from shutil import rmtree

import duckdb
import pyarrow as pa
import pyarrow.parquet as parquet
from benchmarks.contest.clicks import CATEGORICAL, REAL, make_clicks, to_arrow
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave, time_call

from samovar.brewing.brew import load_recipe, make_table
from samovar.seeds import numpy_generator
from samovar.tables import open_table

SAMOVAR = "Samovar brew"
DUCKDB = "DuckDB COPY (… ORDER BY …)"
LEAST_OF_DUCKDB = 0.45
START = 1_700_002_800  # a full hour
HOURS = 6
GRANULE_SECONDS = 300
ROWS_PER_GROUP = 65536
SOURCE = "source.parquet"


def write_source(num_rows: int, folder: Path) -> None:
    """Clicks of six hours in random order; `key` is unique."""
    chance = numpy_generator(1, "times")
    times = START + chance.integers(0, HOURS * 3600, num_rows)
    rows = to_arrow(make_clicks(num_rows)).append_column("time", pa.array(times))
    rows = rows.append_column("key", pa.array(chance.permutation(num_rows)))
    parquet.write_table(rows, folder / SOURCE, compression="zstd", row_group_size=ROWS_PER_GROUP)


# Each runs in its own process


def run_samovar(folder: Path, memory_limit: str) -> None:
    config = {
        "source": SOURCE,
        "time_field": "time",
        "granularity": GRANULE_SECONDS,
        "stability_column": "key",
        "categorical_factors": list(CATEGORICAL),
        "realvalue_factors": list(REAL),
        "memory_limit": memory_limit,
    }
    make_table(load_recipe(config, "recipe", folder), folder / "result")


def run_duckdb(folder: Path, memory_limit: str) -> None:
    connection = duckdb.connect(config={"memory_limit": memory_limit, "temp_directory": str(folder / "spill")})
    columns = ", ".join((*CATEGORICAL, *REAL))
    connection.execute(
        f"COPY (SELECT {columns} FROM '{folder / SOURCE}' ORDER BY time // {GRANULE_SECONDS}, time, key) "
        f"TO '{folder / 'result'}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 5)"
    )


RUNS: dict[str, Callable[[Path, str], None]] = {SAMOVAR: run_samovar, DUCKDB: run_duckdb}


def run_alone(name: str, folder: Path, memory_limit: str) -> None:
    """Print seconds and peak resident memory: the kernel's count for a child includes its parent's."""
    seconds = time_call(partial(RUNS[name], folder, memory_limit))
    status = Path("/proc/self/status").read_text().splitlines()
    peak = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmHWM"))
    print(json.dumps([seconds, peak]))


# The contest


class Turns:
    """Run one contestant in a child process and keep its time and memory."""

    def __init__(self, folder: Path, num_rows: int, memory_limit: str) -> None:
        self._folder = folder
        self._num_rows = num_rows
        self._memory_limit = memory_limit
        self.peaks: dict[str, list[int]] = {name: [] for name in RUNS}
        self.sizes: dict[str, int] = {}

    def take(self, name: str) -> float:
        result = self._folder / "result"
        command = [sys.executable, "-m", "benchmarks.brew", "--alone", name]
        command += ["--dir", str(self._folder), "--memory-limit", self._memory_limit]
        done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
        seconds, peak = json.loads(done.stdout)
        self.peaks[name].append(peak)
        self._check(name, result)
        if result.is_dir():
            rmtree(result)
        else:
            result.unlink()
        return float(seconds)

    def _check(self, name: str, result: Path) -> None:
        if name == SAMOVAR:
            found = open_table(result).num_examples
            self.sizes[name] = sum(path.stat().st_size for path in result.rglob("*.parquet"))
        else:
            found = parquet.read_metadata(result).num_rows
            self.sizes[name] = result.stat().st_size
        if found != self._num_rows:
            raise SystemExit(f"{name}: made {found:,} of {self._num_rows:,} rows; fix the benchmark")


def tell_sizes(turns: Turns) -> str:
    peaks = {name: f"{statistics.median(sizes) / 1e6:,.0f} MB" for name, sizes in turns.peaks.items()}
    files = {name: f"{size / 1e6:,.0f} MB" for name, size in turns.sizes.items()}
    return f"peak memory {peaks[SAMOVAR]} and {peaks[DUCKDB]}, result {files[SAMOVAR]} and {files[DUCKDB]}"


def run(num_rows: int, rounds: int, memory_limit: str, folder: Path) -> Iterator[Report]:
    write_source(num_rows, folder)
    turns = Turns(folder, num_rows, memory_limit)
    seconds = interleave({name: partial(turns.take, name) for name in RUNS}, rounds, "brewing")
    size = (folder / SOURCE).stat().st_size / 1e6
    title = (
        f"{num_rows:,} rows, {size:,.0f} MB of Parquet, memory limit {memory_limit}, {rounds} rounds in turns, medians"
    )
    promise = Promise(SAMOVAR, DUCKDB, LEAST_OF_DUCKDB, tell_sizes(turns))
    yield Report(title, [Section("sort and write", seconds, num_rows / 1000, "k rows", DUCKDB, [promise])])


def main() -> int:
    parser = CommandLine(__doc__, rounds=Size(3, 1), rows=Size(2_000_000, 5_000))
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--alone", choices=RUNS, help=argparse.SUPPRESS)
    options = parser.read()
    if options.alone:
        run_alone(options.alone, options.dir, options.memory_limit)
        return 0
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        reports = run(options.rows, options.rounds, options.memory_limit, Path(folder))
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
