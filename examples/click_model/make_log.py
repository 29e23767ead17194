"""A click log with a known truth: users and ads come and go by the hour, few are popular, a hidden model decides.

python make_log.py clicks.parquet --days 7 --rows-per-hour 20000

These numbers give 619,246 users and 61,744 ads. `chance` is the hidden model's probability for each row: no model can
have a better expected log-loss.
"""

import argparse
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.seeds import numpy_generator

START = 1_767_225_600  # 2026-01-01T00:00 UTC
LONGEST_LIFE = 72
"""Hours from the first to the last possible appearance of a user or an ad."""
NUM_CAMPAIGNS = 200
NUM_SEGMENTS = 20
NUM_PLACES = 10
NUM_TASTES = 3
Numbers = NDArray[np.int64]
Reals = NDArray[np.float64]

_SCHEMA = pa.schema(
    [("time", pa.int64()), ("hit", pa.int64()), ("user", pa.int64()), ("segment", pa.string()), ("ad", pa.string()),
     ("campaign", pa.string()), ("place", pa.string()), ("sin", pa.float64()), ("cos", pa.float64()),
     ("clicked", pa.int64()), ("chance", pa.float64())]
)  # fmt: skip


def write_log(path: Path, days: int, rows_per_hour: int, seed: int = 1) -> None:
    log = ClickLog(days, rows_per_hour, seed)
    with pq.ParquetWriter(path, _SCHEMA) as writer:
        for hour in range(days * 24):
            writer.write_table(log.make_hour(hour))


@dataclass(frozen=True)
class Crowd:
    """Everyone who ever appears, in the order of arrival. The same number arrives each hour."""

    weights: Reals
    """How often one appears, heavy-tailed: most are rare, a few are everywhere."""
    last_hours: Numbers
    per_hour: int

    @classmethod
    def draw(cls, chance: np.random.Generator, num_hours: int, per_hour: int, tail: float) -> "Crowd":
        """The first arrive `LONGEST_LIFE` hours before the log starts, so that its first hour is like any other."""
        arrivals = np.repeat(np.arange(-LONGEST_LIFE, num_hours), per_hour)
        lives = np.minimum(chance.exponential(24, len(arrivals)), LONGEST_LIFE).astype(np.int64)
        weights = np.maximum(chance.random(len(arrivals)), 1e-4) ** -tail
        return cls(weights, arrivals + lives, per_hour)

    def draw_rows(self, chance: np.random.Generator, hour: int, count: int) -> Numbers:
        """Those who appear in one hour, as often as their weights say."""
        first, end = hour * self.per_hour, (hour + LONGEST_LIFE + 1) * self.per_hour
        here = first + np.flatnonzero(self.last_hours[first:end] >= hour)
        summed = np.cumsum(self.weights[here])
        rows: Numbers = here[np.searchsorted(summed, chance.random(count) * summed[-1], "right")]
        return rows


class ClickLog:
    """The log and the truth behind it; an hour depends only on its number."""

    def __init__(self, days: int, rows_per_hour: int, seed: int) -> None:
        self._days, self._rows_per_hour, self._seed = days, rows_per_hour, seed
        per_hour = max(rows_per_hour // 5, 1), max(rows_per_hour // 60, 1)
        self._users = Crowd.draw(self._chance("users"), days * 24, per_hour[0], tail=0.4)
        self._ads = Crowd.draw(self._chance("ads"), days * 24, per_hour[1], tail=0.8)

    def make_hour(self, hour: int) -> pa.Table:
        chance, count = self._chance("hour", hour), self._rows_per_hour
        seconds = 3600 * hour + np.sort(chance.integers(0, 3600, count))
        users, ads = self._users.draw_rows(chance, hour, count), self._ads.draw_rows(chance, hour, count)
        segments, campaigns = self._segments[users], self._campaigns[ads]
        places = chance.integers(0, NUM_PLACES, count)
        angle = 2 * np.pi * seconds / 86400
        logit = -2.2 + self._moods[users] + self._qualities[ads] + self._drift[hour // 24, campaigns]
        logit += self._fits[segments, campaigns] + self._shelves[places] + 0.3 * np.sin(angle)
        p = 1 / (1 + np.exp(-logit))
        columns = {
            "time": START + seconds,
            "hit": hour * count + np.arange(count),
            "user": self._user_ids[users],
            "segment": _name("segment", segments),
            "ad": _name("ad", ads),
            "campaign": _name("campaign", campaigns),
            "place": _name("place", places),
            "sin": np.sin(angle),
            "cos": np.cos(angle),
            "clicked": (chance.random(count) < p).astype(np.int64),
            "chance": p,
        }
        return pa.table(columns, schema=_SCHEMA)

    @cached_property
    def _user_ids(self) -> Numbers:
        return self._chance("ids").integers(1, 2**63 - 1, len(self._users.weights))

    @cached_property
    def _segments(self) -> Numbers:
        return self._chance("segments").integers(0, NUM_SEGMENTS, len(self._users.weights))

    @cached_property
    def _campaigns(self) -> Numbers:
        return self._chance("campaigns").integers(0, NUM_CAMPAIGNS, len(self._ads.weights))

    @cached_property
    def _moods(self) -> Reals:
        return self._draw_effects("moods", 0.3, len(self._users.weights))

    @cached_property
    def _qualities(self) -> Reals:
        return self._draw_effects("qualities", 0.5, len(self._ads.weights))

    @cached_property
    def _drift(self) -> Reals:
        """The quality of each campaign on each day: every day shifts all of them."""
        steps = self._draw_effects("drift", 0.3, self._days, NUM_CAMPAIGNS)
        steps[0] *= 3
        return np.cumsum(steps, axis=0)

    @cached_property
    def _fits(self) -> Reals:
        """How well a campaign suits a segment."""
        tastes = self._draw_effects("tastes", 1.0, NUM_SEGMENTS, NUM_TASTES)
        return tastes @ self._draw_effects("topics", 0.4, NUM_TASTES, NUM_CAMPAIGNS)

    @cached_property
    def _shelves(self) -> Reals:
        return self._draw_effects("shelves", 0.5, NUM_PLACES)

    def _draw_effects(self, purpose: str, scale: float, *shape: int) -> Reals:
        return scale * self._chance(purpose).standard_normal(shape)

    def _chance(self, purpose: str, *indices: int) -> np.random.Generator:
        return numpy_generator(self._seed, f"click log {purpose}", *indices)


def _name(kind: str, numbers: Numbers) -> pa.Array:
    distinct, places = np.unique(numbers, return_inverse=True)
    return pa.array([f"{kind}-{number}" for number in distinct]).take(pa.array(places))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--rows-per-hour", type=int, default=2000)
    arguments = parser.parse_args()
    write_log(arguments.path, arguments.days, arguments.rows_per_hour)
