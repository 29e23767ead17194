"""Small logs with everything that can go wrong on the way through a cluster, and the functions that executors run in
these tests. The executors import this module."""

import os
import signal
import time
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

from samovar.brewing.parts import OnRows, Part

NOON = 1609502400
FACTORS: dict[str, Any] = {
    "columns": {
        "time": "time",
        "id": ["id", "key"],
        "ids": "id",
        "steps": "id_sequence",
        "word": "hash",
        "text": {"text": {"words": 2}},
        "x": "number",
        "scaled": {"number": {"scale": "standard"}},
        "binned": {"number": {"bins": 4, "missing": "indicator"}},
        "when": "key",
        "small": "key",
        "data": "key",
    },
    "crosses": [["group", "word"]],
    "batch_size": 16,
}
OFFLINE = {**FACTORS, "columns": {name: role for name, role in FACTORS["columns"].items() if name != "time"}}
RECIPES: dict[str, dict[str, Any]] = {
    "dates": FACTORS,
    "groups": {**FACTORS, "pivot_column": "group", "stability_column": "n"},
    "words": {**FACTORS, "pivot_column": "label"},
    "unsigned": {**FACTORS, "pivot_column": "big", "granularity": 1800},
    "some": {**FACTORS, "where": 'x > 20 AND "group" <> 3', "missing": {"word": "drop"}},
    "days": {**FACTORS, "uri": "day", "time_features": {"hour": "cycle", "weekday": "id"}},
    "range": {**FACTORS, "start_date": "2021-01-01T13:00", "end_date": "2021-01-01T18:00"},
    "shuffled": {**OFFLINE, "shuffle": {"seed": 7}},
    "shuffled groups": {**OFFLINE, "shuffle": {"seed": 7}, "pivot_column": "label"},
    "offline groups": {**OFFLINE, "pivot_column": "group", "stability_column": "n"},
    "as it is": OFFLINE,
}


def make_log(num_rows: int, hours: int, seed: int = 0) -> pa.Table:
    """Rows with ties, nulls, ids from the whole unsigned range, NaN, and an hour without rows."""
    random = np.random.default_rng(seed)
    times = NOON + random.integers(0, hours * 30, num_rows) * 120
    times[(times >= NOON + 7200) & (times < NOON + 10800)] -= 3600

    def holes(values: Sequence[Any], every: int) -> list[Any]:
        return [None if n % every == 3 else value for n, value in enumerate(values)]

    ids = [2**64 - 1 - int(n) for n in random.integers(0, 99, num_rows)]
    lists = [ids[n : n + n % 4] for n in range(num_rows)]
    floats = [float("nan") if n % 19 == 0 else n / 7 for n in range(num_rows)]
    return pa.table(
        {
            "time": times,
            "n": range(num_rows),
            "group": random.integers(-4, 5, num_rows),
            "label": [f"ы{n}" if n % 2 else f"Z{n}" for n in random.integers(0, 9, num_rows)],
            "big": pa.array([ids[n] if n % 3 else n % 5 for n in range(num_rows)], pa.uint64()),
            "id": pa.array(holes(ids, 11), pa.uint64()),
            "ids": pa.array(holes([[None, *each] for each in lists], 7), pa.list_(pa.uint64())),
            "steps": pa.array(holes(lists, 5), pa.list_(pa.uint64())),
            "word": holes([f"w{n % 6}" for n in range(num_rows)], 13),
            "text": holes([f"Tea for {n % 5} und Gebäck" for n in range(num_rows)], 9),
            "x": pa.array([n / 3 for n in range(num_rows)]),
            "scaled": pa.array(holes(floats, 6)),
            "binned": pa.array(holes(floats, 8)),
            "when": pa.array([10**15 + n for n in range(num_rows)], pa.timestamp("ns", "UTC")),
            "small": pa.array(holes([n % 200 for n in range(num_rows)], 4), pa.uint8()),
            "data": pa.array(holes([bytes([n % 256, 0, 255]) for n in range(num_rows)], 10), pa.binary()),
        }
    )


def write_log(folder: Path, num_rows: int, hours: int, num_files: int = 3, seed: int = 0) -> None:
    table = make_log(num_rows, hours, seed)
    size = -(-num_rows // num_files)
    for number in range(num_files):
        parquet.write_table(table.slice(number * size, size), folder / f"{number}.parquet", row_group_size=50)


def write_text_log(folder: Path, num_rows: int, hours: int) -> None:
    """CSV files whose columns are ids, texts and words for missing values in some and not in others."""
    table = make_log(num_rows, hours).select(["time", "n", "group", "label", "id", "x", "word"])
    for number in range(3):
        csv.write_csv(table.slice(number * num_rows // 3, num_rows // 3), folder / f"{number}.csv")
    (folder / "2.csv").write_text((folder / "2.csv").read_text().replace(",,", ",NA,"))


@dataclass(frozen=True)
class KillsItsExecutor:
    """Makes parts; the first attempt at part 1 kills the executor's Java process half-way."""

    make_part: Any
    folder: Path

    def __call__(self, part: Part, streams: Sequence[Generator[pa.RecordBatch]], on_rows: OnRows) -> Any:
        made = self.make_part(part, streams, on_rows)
        if part.number == 1 and take(self.folder / "killed"):
            os.kill(_executor(), signal.SIGKILL)
            time.sleep(600)  # ends with the executor
        return made


@dataclass(frozen=True)
class WaitsForTheOther:
    """Makes parts; the first attempt at part 1 waits until a second one writes too."""

    make_part: Any
    folder: Path

    def __call__(self, part: Part, streams: Sequence[Generator[pa.RecordBatch]], on_rows: OnRows) -> Any:
        if part.number == 1:
            if take(self.folder / "first"):
                while not (self.folder / "second").exists():
                    time.sleep(0.05)
            else:
                take(self.folder / "second")
        return self.make_part(part, streams, on_rows)


def take(path: Path) -> bool:
    """Whether this is the first process to come here."""
    try:
        path.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _executor() -> int:
    """The Java process above this Python worker and its daemon."""
    process = os.getppid()
    while b"java" not in Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")[0]:
        process = int(Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[1])
    return process
