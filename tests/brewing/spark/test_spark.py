"""The Spark engine on a real standalone cluster: a master and two workers, on loopback. Every file of a table is the
one that DuckDB makes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.brewing.spark.log import (
    FACTORS,
    NOON,
    RECIPES,
    KillsItsExecutor,
    make_log,
    write_log,
    write_text_log,
)
from tests.brewing.test_brew import files_in
from tests.orphans import ending_with_me
from tests.waiting import wait_until

from samovar.brewing import parts, stage
from samovar.brewing.brew import brew_recipe, load_recipe, make_table
from samovar.brewing.engines import Engine, find_engine
from samovar.brewing.engines.spark import SparkEngine
from samovar.brewing.progress import Progress, State
from samovar.brewing.stage import BrewResult
from samovar.errors import BadInput, ConfigError, NotAResult, StoreError
from samovar.results import open_directory
from samovar.tables import open_table
from samovar.testing.cluster import Cluster, start_cluster
from samovar.testing.engine import EngineContract

pytestmark = pytest.mark.timeout(3600)  # on a busy machine Java takes minutes to start
ROOT = Path(__file__).parents[3]
HIDE = """
import importlib.metadata, sys
old = importlib.metadata.version

def version(name):
    if name == "samovar":
        {answer}
    return old(name)

importlib.metadata.version = version
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("cluster")
    with start_cluster(folder, python_path=str(ROOT), in_child=ending_with_me()) as started:
        yield started


@pytest.fixture(scope="module")
def session(cluster: Cluster) -> Iterator[SparkSession]:
    """A session that runs already, which the engine uses."""
    before = signal.getsignal(signal.SIGINT)
    started = SparkSession.builder.master(cluster.master).config(map={**cluster.conf}).getOrCreate()
    started.sparkContext.pythonExec = sys.executable
    started.sparkContext.setLogLevel("OFF")
    signal.signal(signal.SIGINT, before)
    yield started
    started.stop()


def brew(folder: Path, result: str, recipe: dict[str, Any], engine: Any = "duckdb", **options: Any) -> BrewResult:
    keys = {"source": "*.parquet", **recipe, "engine": engine}
    return make_table(load_recipe(keys, "recipe.json", folder), folder / result, **options)


def compare(folder: Path, recipe: dict[str, Any], name: str = "") -> int:
    """Brew with both engines, and return the number of files of both tables."""
    results = [brew(folder, f"{engine} {name}", recipe, engine) for engine in ("duckdb", "spark")]
    assert results[0].counts == results[1].counts
    assert results[0].notes == results[1].notes
    tables = [folder / f"{engine} {name}" for engine in ("duckdb", "spark")]
    found = [files_in(table) for table in tables]
    assert found[0] == found[1], name
    assert open_directory(tables[0]).id == open_directory(tables[1]).id
    return len(found[0]) - 1


def test_spark_makes_the_files_of_duckdb(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 700, 9)
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    assert compare(tmp_path, RECIPES["groups"]) == 3


@pytest.mark.long
class TestSparkEngine(EngineContract):
    @pytest.fixture
    def engine(self, session: SparkSession) -> Iterator[Engine]:
        with find_engine("spark") as engine:
            yield engine


@pytest.mark.long
@pytest.mark.parametrize(("num_rows", "num_parts"), [(200, 1), (700, 3), (1500, 7)])
@pytest.mark.parametrize("name", RECIPES)
def test_every_recipe_makes_the_files_of_duckdb(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, num_rows: int, num_parts: int
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    write_log(tmp_path, num_rows, num_rows // 70, num_files=num_parts)
    num_files = compare(tmp_path, RECIPES[name], name)
    if name in ("dates", "groups", "words", "unsigned"):
        assert num_files == num_parts
    if name in ("offline groups", "as it is"):
        assert num_files == 1


@pytest.mark.long
@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
def test_types_of_text_files_are_learned_on_the_executors(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    columns = {"time": "time", "id": "id", "x": "number", "word": "hash", "group": "key"}
    if suffix == "csv":
        write_text_log(tmp_path, 600, 9)
    else:
        rows = make_log(600, 9).select([*columns, "n"]).to_pylist()
        for number in range(3):
            lines = "".join(json.dumps(row) + "\n" for row in rows[number::3])
            (tmp_path / f"{number}.jsonl").write_text(lines)
    assert compare(tmp_path, {"source": f"*.{suffix}", "columns": columns, "batch_size": 16}) == 3


@pytest.mark.long
def test_joined_tables_are_those_of_duckdb(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    log = make_log(700, 9)
    (tmp_path / "more").mkdir()
    write_log(tmp_path, 700, 9)
    other = log.select(["time", "group", "n", "x"]).rename_columns(["time", "group", "n", "y"])
    parquet.write_table(other.take(pa.array(np.random.default_rng(5).permutation(700))), tmp_path / "more/a.parquet")
    keys = {
        "time_field": "time",
        "categorical_factors": ["id"],
        "pivot_column": "group",
        "stability_column": "n",
        "tables": [{"source": "more/*.parquet", "realvalue_factors": ["y"]}],
    }
    assert compare(tmp_path, keys) == 3
    parquet.write_table(other.slice(0, 650), tmp_path / "more/a.parquet")
    assert error_of(tmp_path, keys, "duckdb") == error_of(tmp_path, keys, "spark")


def error_of(folder: Path, keys: dict[str, Any], engine: str) -> str:
    place = folder / f"{engine} with an error"
    with pytest.raises(BadInput) as caught:
        brew(folder, place.name, keys, engine)
    with pytest.raises(NotAResult):
        open_table(place)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.long
@pytest.mark.parametrize("problem", ["time", "list", "null", "where", "missing"])
def test_bad_input_is_reported_as_on_this_machine(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, problem: str
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    log = make_log(600, 9).select(["time", "x", "n"])
    lists, texts, times = [[1.0, 2.0]] * 600, ["1"] * 600, [str(NOON + int(n)) for n in range(600)]
    if problem == "list":
        lists[444] = lists[555] = [1.0]
    if problem == "where":
        texts[444] = "one"
    times = [f"2021-01-01T{12 + n // 100}:00:00" for n in range(600)]
    if problem == "time":
        times[444] = "yesterday"
    numbers: list[int | None] = list(range(600))
    if problem in ("null", "missing"):
        numbers[444] = None
    table = log.append_column("list", pa.array(lists)).append_column("text", pa.array(texts))
    table = table.append_column("at", pa.array(times)).append_column("number", pa.array(numbers))
    parquet.write_table(table.slice(0, 300), tmp_path / "1.parquet")
    parquet.write_table(table.slice(300), tmp_path / "2.parquet")
    keys: dict[str, Any] = {"time_field": "at", "realvalue_factors": ["list"], "keys": ["number"]}
    if problem == "null":
        keys["pivot_column"] = "number"
    if problem == "where":
        keys["where"] = "CAST(text AS INTEGER) = 1"
    if problem == "missing":
        keys |= {"keys": [], "categorical_factors": ["number"], "missing": {"number": "error"}}
    found = error_of(tmp_path, keys, "spark")
    assert "2.parquet row 144" in found
    assert found == error_of(tmp_path, keys, "duckdb")


@pytest.mark.long
def test_hours_are_appended_by_either_engine(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 100)
    write_log(tmp_path, 700, 9)
    keys = {"time_field": "time", "categorical_factors": ["id"], "batch_size": 16}
    ranges = ({"end_date": "2021-01-01T16:00"}, {"start_date": "2021-01-01T16:00"})
    for name, engines in (("one", ("duckdb", "duckdb")), ("two", ("spark", "duckdb")), ("three", ("duckdb", "spark"))):
        for engine, hours in zip(engines, ranges, strict=True):
            brew(tmp_path, name, {**keys, **hours}, engine, append=True)
    assert open_table(tmp_path / "one").version == 2
    assert files_in(tmp_path / "one") == files_in(tmp_path / "two") == files_in(tmp_path / "three")


@pytest.mark.long
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    rows=st.integers(8, 60),
    hours=st.integers(1, 9),
    seed=st.integers(0, 99),
    rows_per_part=st.integers(1, 30),
    name=st.sampled_from(sorted(RECIPES)),
)
def test_any_log_makes_the_files_of_duckdb(
    session: SparkSession, tmp_path_factory: pytest.TempPathFactory, rows: int, hours: int, seed: int,
    rows_per_part: int, name: str,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("log")
    write_log(folder, rows, hours, num_files=1 + seed % 3, seed=seed)
    if name in ("some", "range"):  # these may leave no row
        name = "dates"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_PER_PART", rows_per_part)
        compare(folder, RECIPES[name])


@pytest.mark.long
def test_progress_counts_tasks(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Recorder(Progress):
        def __init__(self) -> None:
            super().__init__()
            self.begun: list[State] = []

        def begin(self, *args: Any, **kwargs: Any) -> None:
            super().begin(*args, **kwargs)
            self.begun.append(self.state)

    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    write_log(tmp_path, 700, 9)
    progress = Recorder()
    brew(tmp_path, "table", FACTORS, "spark", progress=progress)
    assert progress.begun[0].phase == "scanning sources"
    assert (progress.begun[-1].phase, progress.begun[-1].unit) == ("writing", "tasks")
    assert progress.begun[-1].total == 3


@pytest.mark.long
def test_what_spark_cannot_do_is_refused(session: SparkSession, tmp_path: Path) -> None:
    write_log(tmp_path, 100, 3)
    rate = {"of": "x", "window": "2h", "known_after": "1h"}
    with pytest.raises(BadInput, match="the Spark engine has no rates yet; brew with the DuckDB engine"):
        brew(tmp_path, "table", {**FACTORS, "rates": [rate]}, "spark")
    with pytest.raises(BadInput, match="the Spark engine reads files only"):
        brew(tmp_path, "table", {"source": pa.table({"x": [1]}), "categorical_factors": ["x"]}, "spark")
    with pytest.raises(ConfigError, match="a Spark session runs already, with the master spark://"):
        brew(tmp_path, "table", FACTORS, {"spark": {"master": "local[1]"}})


@pytest.mark.long
def test_a_result_that_stays_on_the_executors_is_refused(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path, 100, 3)
    old = stage._PartMaker.__getstate__
    elsewhere = {"place": str(tmp_path / "elsewhere")}
    monkeypatch.setattr(stage._PartMaker, "__getstate__", lambda self: old(self) | elsewhere)
    with pytest.raises(StoreError, match=r"an executor has written it, but it is not here"):
        brew(tmp_path, "table", FACTORS, "spark")


@pytest.mark.long
def test_a_killed_executor_changes_nothing(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", 200)
    write_log(tmp_path, 700, 9)
    brew(tmp_path, "straight", FACTORS)
    old = SparkEngine.map_parts

    def map_parts(self: SparkEngine, queries: Any, cut: Any, make_part: Any) -> Any:
        return old(self, queries, cut, KillsItsExecutor(make_part, tmp_path))

    monkeypatch.setattr(SparkEngine, "map_parts", map_parts)
    brew(tmp_path, "killed", FACTORS, "spark")
    assert (tmp_path / "killed").exists()
    assert files_in(tmp_path / "killed") == files_in(tmp_path / "straight")


# With sessions of their own, in processes of their own


SCRIPT = """
import json, sys
from pathlib import Path
from samovar.brewing import parts
from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.engines.spark import SparkEngine
from samovar.errors import SamovarError
from tests.brewing.spark.log import WaitsForTheOther

parts.ROWS_PER_PART = 200
folder, result, how, keys = Path(sys.argv[1]), sys.argv[2], sys.argv[3], json.loads(sys.argv[4])
if how == "wait":
    old = SparkEngine.map_parts
    SparkEngine.map_parts = lambda self, queries, cut, make: old(self, queries, cut, WaitsForTheOther(make, folder))
try:
    make_table(load_recipe(keys, "recipe", folder), folder / result)
except SamovarError as error:
    print(f"{type(error).__name__}: {error}")
"""


@contextmanager
def brewing(
    folder: Path, result: str, how: str, cluster: Cluster, keys: dict[str, Any], **conf: str
) -> Iterator[subprocess.Popen[str]]:
    spark = {"master": cluster.master, "conf": {**cluster.conf, "spark.cores.max": "2", **conf}}
    recipe = {"source": "*.parquet", **keys, "engine": {"spark": spark}}
    command = [sys.executable, "-c", SCRIPT, str(folder), result, how, json.dumps(recipe)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_LOCAL_IP": "127.0.0.1"}
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


@pytest.fixture(scope="module")
def other_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The session above holds all cores of its own."""
    folder = tmp_path_factory.mktemp("other")
    with start_cluster(folder, python_path=str(ROOT), in_child=ending_with_me()) as started:
        yield started


@pytest.mark.long
def test_a_task_that_runs_twice_writes_the_same_files(other_cluster: Cluster, tmp_path: Path) -> None:
    write_log(tmp_path, 700, 9)
    speculation = {
        "spark.speculation": "true",
        "spark.speculation.interval": "100ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.3",
        "spark.speculation.minTaskRuntime": "100ms",
    }
    with brewing(tmp_path, "twice", "wait", other_cluster, FACTORS, **speculation) as process:
        assert process.communicate()[0] == ""
        assert process.returncode == 0
    assert (tmp_path / "second").exists()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_PER_PART", 200)
        brew(tmp_path, "straight", FACTORS)
    assert files_in(tmp_path / "twice") == files_in(tmp_path / "straight")


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_a_stopped_driver_leaves_no_table(other_cluster: Cluster, tmp_path: Path, number: signal.Signals) -> None:
    write_log(tmp_path, 700, 9)
    with brewing(tmp_path, "table", "wait", other_cluster, FACTORS) as process:
        wait_until(lambda: (tmp_path / "first").exists() or process.poll() is not None, "a part is being made")
        process.send_signal(number)
        assert process.wait() != 0
    with pytest.raises(NotAResult):
        open_table(tmp_path / "table")
    wait_until(lambda: not other_cluster.status()["activeapps"], "the application has ended")
    (tmp_path / "second").touch()
    with brewing(tmp_path, "table", "", other_cluster, FACTORS) as process:
        assert process.wait() == 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(parts, "ROWS_PER_PART", 200)
        brew(tmp_path, "straight", FACTORS)
    assert files_in(tmp_path / "table") == files_in(tmp_path / "straight")


@pytest.mark.long
@pytest.mark.parametrize(
    ("answer", "found"), [("raise importlib.metadata.PackageNotFoundError(name)", "no"), ('return "0.1.0"', "0.1.0")]
)
def test_executors_with_another_samovar_are_told_what_to_install(
    other_cluster: Cluster, tmp_path: Path, answer: str, found: str
) -> None:
    write_log(tmp_path, 50, 2)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden/sitecustomize.py").write_text(HIDE.format(answer=answer))
    conf = {"spark.executorEnv.PYTHONPATH": str(tmp_path / "hidden")}
    with brewing(tmp_path, "table", "", other_cluster, FACTORS, **conf) as process:
        printed = process.communicate()[0]
    assert f"ConfigError: Spark's executors have {found} samovar, this is samovar" in printed
    assert printed.rstrip().count("\n") == 0
    assert "pip install samovar==" in printed


@pytest.mark.long
def test_the_command_line_names_the_cluster(other_cluster: Cluster, tmp_path: Path) -> None:
    write_log(tmp_path, 100, 3)
    recipe = {"source": "*.parquet", **FACTORS, "engine": {"spark": {"conf": other_cluster.conf}}}
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    command = [sys.executable, "-m", "samovar", "brew", "recipe.json", "--engine", "spark", "--master"]
    done = subprocess.run([*command, other_cluster.master], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    brew_recipe(tmp_path / "recipe.json", tmp_path / "straight", engine="duckdb", progress=False)
    assert files_in(tmp_path / "recipe") == files_in(tmp_path / "straight")
    assert "engine" not in json.loads((tmp_path / "recipe/model_config.json").read_text())
