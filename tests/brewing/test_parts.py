"""Tables in several parts: cut by the same rule, made by other processes or here, with the same bytes."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.brewing.test_brew import files_in
from tests.waiting import wait_until

from samovar.brewing import parts
from samovar.brewing.brew import load_recipe, make_table
from samovar.brewing.clock import Clock
from samovar.brewing.engines import find_engine
from samovar.brewing.engines.processes import PartProcesses, as_message
from samovar.brewing.order import Order
from samovar.brewing.parts import Part, cut_parts, find_part_numbers
from samovar.brewing.progress import BrewCounts, Progress, State
from samovar.brewing.sources import ROW
from samovar.errors import BadInput, NotAResult, StoreError
from samovar.tables import open_table, writer
from samovar.testing.engine import make_query, rows_of_parts

NOON = 1609502400
HOURS = 8
NUM_ROWS = 600
RECIPE: dict[str, Any] = {
    "source": "*.parquet",
    "batch_size": 7,
    "categorical_factors": ["id"],
    "realvalue_factors": ["x"],
    "keys": ["word"],
}
ONLINE = {**RECIPE, "time_field": "time", "granularity": 600}
SHUFFLED = {**RECIPE, "shuffle": {"seed": 3}}


def write_log(folder: Path, num_rows: int = NUM_ROWS, hours: int = HOURS) -> None:
    """Two files with ties, nulls, unsigned ids, and an hour without rows."""
    random = np.random.default_rng(1)
    times = NOON + random.integers(0, hours * 60, num_rows) * 60
    times[(times >= NOON + 7200) & (times < NOON + 10800)] += 3600
    rows = pa.table(
        {
            "time": times,
            "group": random.integers(0, 9, num_rows),
            "id": pa.array([None if n % 11 == 0 else 2**64 - 1 - n for n in range(num_rows)], pa.uint64()),
            "x": pa.array([None if n % 13 == 0 else n / 3 for n in range(num_rows)]),
            "word": [None if n % 17 == 0 else f"ы{n % 5}" for n in range(num_rows)],
        }
    )
    parquet.write_table(rows.slice(0, num_rows // 3), folder / "1.parquet")
    parquet.write_table(rows.slice(num_rows // 3), folder / "2.parquet")


def brew(folder: Path, result: str, recipe: dict[str, Any], **options: Any) -> BrewCounts | None:
    return make_table(load_recipe(recipe, "recipe.json", folder), folder / result, **options).counts


def set_up(monkeypatch: pytest.MonkeyPatch, rows_per_part: int, num_cores: int = 1) -> None:
    monkeypatch.setattr(parts, "ROWS_PER_PART", rows_per_part)
    monkeypatch.setattr(os, "cpu_count", lambda: num_cores)


@given(st.dictionaries(st.integers(-(10**9), 10**9), st.integers(1, 50), max_size=40), st.integers(1, 60))
def test_parts_are_runs_of_whole_units_that_are_large_enough(counts: dict[int, int], rows_per_part: int) -> None:
    found = cut_parts(counts, rows_per_part)
    assert found == cut_parts(dict(reversed(counts.items())), rows_per_part)
    assert [part.number for part in found] == list(range(len(found)))
    assert (found[0].first, found[-1].stop) == (None, None)
    assert [part.stop for part in found[:-1]] == [part.first for part in found[1:]]
    units = np.array(sorted(counts), np.int64)
    numbers = find_part_numbers(found, units)
    sizes = [sum(counts[unit] for unit in units[numbers == part.number]) for part in found]
    assert [part.num_rows for part in found] == sizes
    assert all(size >= rows_per_part for size in sizes[:-1])
    for part in found[:-1]:  # without its last unit a part is too small
        assert part.num_rows - counts[units[numbers == part.number][-1]] < rows_per_part  # type: ignore[operator]


@pytest.mark.parametrize("keys", [ONLINE, {**ONLINE, "pivot_column": "group"}], ids=["dates", "groups"])
def test_an_online_table_in_parts_has_the_same_minibatches_in_more_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]
) -> None:
    write_log(tmp_path)
    whole = brew(tmp_path, "whole", keys)
    set_up(monkeypatch, 150)
    in_parts = brew(tmp_path, "parts", keys)
    assert whole == in_parts
    assert in_parts is not None
    assert (in_parts.num_spanning_pivots > 0) == ("pivot_column" in keys)
    assert read(tmp_path / "whole") == read(tmp_path / "parts")
    segment = open_table(tmp_path / "parts").manifests[0].segment
    names = [Path(file.path).name for file in segment.files]
    assert names == [f"{number:04d}.parquet" for number in range(len(names))]
    assert len(names) == 3
    assert [hour.num_examples for hour in segment.hours] == [
        hour.num_examples for hour in open_table(tmp_path / "whole").manifests[0].segment.hours
    ]


def read(table: Path) -> list[Any]:
    return [
        (record.hour, record.num_examples, {name: str(value) for name, value in record.items()})
        for record in open_table(table).read()
    ]


@pytest.mark.parametrize(
    "keys", [ONLINE, SHUFFLED, {**SHUFFLED, "pivot_column": "group"}], ids=["online", "rows", "groups"]
)
def test_processes_write_the_same_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: dict[str, Any]) -> None:
    write_log(tmp_path)
    set_up(monkeypatch, 150)
    here = brew(tmp_path, "here", keys)
    set_up(monkeypatch, 150, num_cores=2)
    assert brew(tmp_path, "processes", keys) == here
    assert files_in(tmp_path / "processes") == files_in(tmp_path / "here")
    assert len(files_in(tmp_path / "here")) > 3


def test_a_shuffled_table_in_parts_has_the_order_of_the_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path)
    brew(tmp_path, "whole", {**SHUFFLED, "batch_size": 1})
    set_up(monkeypatch, 150)
    counts = brew(tmp_path, "parts", {**SHUFFLED, "batch_size": 1})
    assert read(tmp_path / "whole") == read(tmp_path / "parts")
    assert counts is not None
    segment = open_table(tmp_path / "parts").manifests[0].segment
    assert len(segment.files) == 4
    assert [(hour.hour, hour.num_examples) for hour in segment.hours] == [(None, NUM_ROWS)]


def test_an_offline_table_in_the_order_of_its_source_is_one_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path)
    set_up(monkeypatch, 150)
    brew(tmp_path, "table", RECIPE)
    assert len(open_table(tmp_path / "table").manifests[0].segment.files) == 1


def test_joined_tables_are_cut_at_the_same_hours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "more").mkdir()
    times = NOON + np.arange(400) * 60
    parquet.write_table(pa.table({"time": times, "n": range(400), "x": range(400)}), tmp_path / "first.parquet")
    parquet.write_table(pa.table({"time": times, "n": range(400), "y": range(400)}), tmp_path / "more/y.parquet")
    keys = {
        "source": "first.parquet",
        "time_field": "time",
        "stability_column": "n",
        "realvalue_factors": ["x"],
        "tables": [{"source": "more/*.parquet", "realvalue_factors": ["y"]}],
    }
    set_up(monkeypatch, 100)
    brew(tmp_path, "here", keys)
    set_up(monkeypatch, 100, num_cores=2)
    brew(tmp_path, "processes", keys)
    assert files_in(tmp_path / "here") == files_in(tmp_path / "processes")
    assert [str(record["x"]) for record in open_table(tmp_path / "here").read()] == [
        str(record["y"]) for record in open_table(tmp_path / "here").read()
    ]
    extra = np.append(times, times[-1] + 7200)
    parquet.write_table(pa.table({"time": extra, "n": range(401), "y": range(401)}), tmp_path / "more/y.parquet")
    with pytest.raises(BadInput, match=r"a row with .* n = 400, which .*first.parquet does not have"):
        brew(tmp_path, "extra", keys)


def test_hours_are_appended_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path)
    for name, rows, cores in (("whole", 10**6, 1), ("parts", 100, 1), ("processes", 100, 2)):
        set_up(monkeypatch, rows, cores)
        middle = "2021-01-01T16:00"
        brew(tmp_path, name, {**ONLINE, "end_date": middle}, append=True)
        brew(tmp_path, name, {**ONLINE, "start_date": middle}, append=True)
    assert read(tmp_path / "whole") == read(tmp_path / "parts")
    assert files_in(tmp_path / "processes") == files_in(tmp_path / "parts")
    assert open_table(tmp_path / "parts").version == 2
    with pytest.raises(BadInput, match=r"is complete until .*, but there is a row of the hour"):
        brew(tmp_path, "processes", ONLINE, append=True)


def test_a_part_may_have_several_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path)
    set_up(monkeypatch, 300)
    monkeypatch.setattr(writer, "MINIBATCHES_PER_GROUP", 4)
    monkeypatch.setattr(writer, "CHUNKS_PER_FILE", 40)
    brew(tmp_path, "table", ONLINE)
    files = [Path(file.path).name for file in open_table(tmp_path / "table").manifests[0].segment.files]
    assert files[:2] == ["0000.parquet", "0000_0001.parquet"]
    assert "0001_0001.parquet" in files
    assert files == sorted(files)
    assert open_table(tmp_path / "table").num_examples == NUM_ROWS


def test_the_first_error_of_a_process_is_that_of_this_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path)
    lists = [[1.0, 2.0]] * NUM_ROWS
    rows = parquet.read_table(tmp_path / "1.parquet").num_rows
    for bad in (NUM_ROWS - 2, rows + 5):
        lists[bad] = [1.0]
    for name, start, stop in (("1", 0, rows), ("2", rows, NUM_ROWS)):
        table = parquet.read_table(tmp_path / f"{name}.parquet")
        parquet.write_table(table.append_column("list", pa.array(lists[start:stop])), tmp_path / f"{name}.parquet")
    keys = {**ONLINE, "realvalue_factors": ["list"]}
    messages = []
    for cores in (1, 2):
        set_up(monkeypatch, 100, cores)
        with pytest.raises(BadInput, match=r"2\.parquet row \d+: column 'list'") as caught:
            brew(tmp_path, f"table{cores}", keys)
        messages.append(str(caught.value))
        with pytest.raises(NotAResult):
            open_table(tmp_path / f"table{cores}")
    assert messages[0] == messages[1]


def test_processes_report_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_log(tmp_path)
    set_up(monkeypatch, 150, num_cores=2)
    progress = Progress()
    brew(tmp_path, "table", ONLINE, progress=progress)
    assert progress.state == State("writing", NUM_ROWS, NUM_ROWS)


def die(part: Part, streams: Any, on_rows: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_process_that_is_killed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2]))
    message = as_message(die)
    assert message is not None
    with (
        PartProcesses[None](2, message, lambda rows: None) as processes,
        pytest.raises(StoreError, match="a process that made a part of the table ended with signal 9"),
    ):
        list(processes.map(iter([(Part(), [None])])))


SCRIPT = """
import os, sys
import samovar
from samovar.brewing import parts
from samovar.brewing.engines import duckdb
from samovar.brewing.progress import Progress

parts.ROWS_PER_PART = 150
duckdb.os.cpu_count = lambda: 2
print("started", flush=True)
table = samovar.brew("*.parquet", sys.argv[1], time="time", columns={"id": "id", "x": "number"}, batch_size=7)
print(len(table.manifests[0].segment.files), flush=True)
"""


def test_a_script_without_a_guard_runs_once(tmp_path: Path) -> None:
    write_log(tmp_path)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", "table"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["started", "3"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_processes_end_with_the_brew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals) -> None:
    """The brew is stopped while its children work, whatever they do at that moment; the next one makes the table."""
    write_log(tmp_path, 20_000)
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "script.py", "table"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        written = tmp_path / "table/segments/000001.e1"
        wait_until(lambda: any(written.glob("*.parquet")) or process.poll() is not None, "a part is written")
        children = find_children(process.pid)
        process.send_signal(number)
        assert process.wait() != 0
    wait_until(lambda: not any(Path(f"/proc/{child}").exists() for child in children), "its processes ended")
    assert len(children) == 2
    with pytest.raises(NotAResult):
        open_table(tmp_path / "table")
    subprocess.run(command, cwd=tmp_path, capture_output=True, check=True)
    set_up(monkeypatch, 150)
    recipe = {"time_field": "time", "columns": {"id": "id", "x": "number"}, "batch_size": 7, "source": "*.parquet"}
    brew(tmp_path, "straight", recipe)
    assert files_in(tmp_path / "table") == files_in(tmp_path / "straight")


def find_children(pid: int) -> list[int]:
    """The running children of a process."""
    found = subprocess.run(["pgrep", "-P", str(pid)], stdout=subprocess.PIPE, text=True, check=False).stdout
    return [int(child) for child in found.split()]


@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    times=st.lists(st.none() | st.integers(0, 6 * 3600), min_size=1, max_size=40),
    rows_per_part=st.integers(1, 20),
    engine=st.sampled_from(["duckdb", "memory"]),
)
def test_every_row_is_in_one_part(tmp_path: Path, times: list[int | None], rows_per_part: int, engine: str) -> None:
    shifted = [None if time is None else NOON + time for time in times]
    parquet.write_table(pa.table({"time": pa.array(shifted, pa.int64())}), tmp_path / "rows.parquet")
    query = make_query(tmp_path / "rows.parquet", Order(is_online=True), clock=Clock("time"))
    with find_engine(engine) as sorter:
        counts = sorter.count_rows(query)
        assert sum(counts.values()) == sum(time is not None for time in times)
        pieces = rows_of_parts(sorter, query, cut_parts(counts, rows_per_part))
    order = sorted(range(len(times)), key=lambda row: (times[row] is not None, times[row] or 0, row))
    assert [row[ROW] for rows in pieces for row in rows] == order
    hours = [{row["time"] // 3600 for row in rows if row["time"] is not None} for rows in pieces]
    assert sum(map(len, hours)) == len(set.union(*hours))
