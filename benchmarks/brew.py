"""Brewing two million rows: Samovar against DuckDB and Spark, which only sort them into Parquet files.

All get the same source, order and all cores, DuckDB and Samovar the same memory limit; each runs in its own process.
Spark is a master and a worker per core on this machine, and a session that runs already: starting it is not measured.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
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
from pyspark.sql import SparkSession, functions

from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.engines import LocalEngine
from samovar.brewing.engines.duckdb import DuckDBEngine
from samovar.seeds import numpy_generator
from samovar.tables import open_table
from samovar.testing.cluster import start_cluster

SAMOVAR = "Samovar brew"
ONE_PROCESS = "Samovar brew, parts in one process"
ON_SPARK = "Samovar brew on Spark"
SPARK = "Spark orderBy, write.parquet"
DUCKDB = "DuckDB COPY (… ORDER BY …)"
LEAST_OF_DUCKDB = 0.45
LEAST_OF_ONE_PROCESS = 0.95
LEAST_OF_SPARK = 0.5
MASTER = "SAMOVAR_BENCH_MASTER"
EXECUTOR_MEMORY = "3g"
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


def run_samovar(folder: Path, memory_limit: str, engine: str = "duckdb") -> None:
    config = {
        "engine": engine,
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


def run_in_one_process(folder: Path, memory_limit: str) -> None:
    DuckDBEngine.map_parts = LocalEngine.map_parts  # type: ignore[method-assign]  # what one core would do
    run_samovar(folder, memory_limit)


def run_on_spark(folder: Path, memory_limit: str) -> None:
    run_samovar(folder, memory_limit, "spark")


def run_spark(folder: Path, memory_limit: str) -> None:
    session = open_session()
    rows = session.read.parquet(str(folder / SOURCE))
    granule = functions.floor(rows["time"] / GRANULE_SECONDS)
    ordered = rows.orderBy(granule, "time", "key").select(*CATEGORICAL, *REAL)
    ordered.write.option("compression", "zstd").parquet(str(folder / "result"))


def open_session() -> SparkSession:
    """The session of this process, which has had its first job."""
    conf = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.log.level": "OFF",
        "spark.executor.memory": EXECUTOR_MEMORY,
    }
    builder = SparkSession.builder.master(os.environ[MASTER])
    for key, value in conf.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.pythonExec = sys.executable
    session.range(0, 1000, 1, 2).count()
    return session


RUNS: dict[str, Callable[[Path, str], None]] = {
    SAMOVAR: run_samovar,
    ONE_PROCESS: run_in_one_process,
    DUCKDB: run_duckdb,
    ON_SPARK: run_on_spark,
    SPARK: run_spark,
}
OF_SPARK = (ON_SPARK, SPARK)


def run_alone(name: str, folder: Path, memory_limit: str) -> None:
    """Print seconds and peak resident memory: the kernel's count for a child includes its parent's."""
    if name in OF_SPARK:
        open_session()
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
        if name in (SAMOVAR, ONE_PROCESS, ON_SPARK):
            found = open_table(result).num_examples
            self.sizes[name] = sum(path.stat().st_size for path in result.rglob("*.parquet"))
        else:
            files = [result] if result.is_file() else sorted(result.glob("*.parquet"))
            found = sum(parquet.read_metadata(file).num_rows for file in files)
            self.sizes[name] = sum(file.stat().st_size for file in files)
        if found != self._num_rows:
            raise SystemExit(f"{name}: made {found:,} of {self._num_rows:,} rows; fix the benchmark")


def tell_sizes(turns: Turns) -> str:
    peaks = {name: f"{statistics.median(sizes) / 1e6:,.0f} MB" for name, sizes in turns.peaks.items()}
    files = {name: f"{size / 1e6:,.0f} MB" for name, size in turns.sizes.items()}
    return f"peak memory {peaks[SAMOVAR]} and {peaks[DUCKDB]}, result {files[SAMOVAR]} and {files[DUCKDB]}"


def run(num_rows: int, rounds: int, memory_limit: str, folder: Path) -> Report:
    write_source(num_rows, folder)
    turns = Turns(folder, num_rows, memory_limit)
    seconds = interleave({name: partial(turns.take, name) for name in RUNS}, rounds, "brewing")
    size = (folder / SOURCE).stat().st_size / 1e6
    title = (
        f"{num_rows:,} rows, {size:,.0f} MB of Parquet, memory limit {memory_limit}, {rounds} rounds in turns, medians"
    )
    here = {name: each for name, each in seconds.items() if name not in OF_SPARK}
    there = {name: each for name, each in seconds.items() if name in OF_SPARK}
    promises = [
        Promise(SAMOVAR, DUCKDB, LEAST_OF_DUCKDB, tell_sizes(turns)),
        Promise(SAMOVAR, ONE_PROCESS, LEAST_OF_ONE_PROCESS),
    ]
    on_spark = [Promise(ON_SPARK, SPARK, LEAST_OF_SPARK)]
    return Report(
        title,
        [
            Section("sort and write", here, num_rows / 1000, "k rows", DUCKDB, promises),
            Section("sort and write on Spark", there, num_rows / 1000, "k rows", SPARK, on_spark),
        ],
    )


def main() -> int:
    parser = CommandLine(__doc__, rounds=Size(3, 1), rows=Size(2_000_000, 5_000))
    parser.add_argument("--memory-limit", default="2GB")
    parser.add_argument("--growth", type=int, nargs="+", metavar="ROWS", help="measure these sizes instead")
    parser.add_argument("--alone", choices=RUNS, help=argparse.SUPPRESS)
    options = parser.read()
    if options.alone:
        run_alone(options.alone, options.dir, options.memory_limit)
        return 0
    with (
        tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder,
        start_cluster(Path(folder), num_workers=os.cpu_count() or 1, memory=EXECUTOR_MEMORY) as cluster,
    ):
        os.environ[MASTER] = cluster.master
        sizes = options.growth or [options.rows]
        reports = (run(size, options.rounds, options.memory_limit, Path(folder)) for size in sizes)
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
