"""A click log with a known truth: Zipf ads and users, new ads every day, tastes that drift, clicks from a hidden model.

python make_log.py clicks.parquet --days 4 --rows-per-hour 2000

`chance` is the hidden model's probability for each row: no model can have a better expected log-loss.
"""

import argparse
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.seeds import numpy_generator

START = 1_767_225_600  # 2026-01-01T00:00 UTC
ADS_PER_DAY = 40
DAYS_OF_AN_AD = 3
NUM_USERS = 1000
NUM_PLACES = 10
NUM_TOPICS = 4
Array = NDArray[np.float64]


def write_log(path: Path, days: int, rows_per_hour: int, seed: int = 1) -> None:
    with pq.ParquetWriter(path, _SCHEMA) as writer:
        for day in range(days):
            writer.write_table(make_day(day, rows_per_hour, seed))


_SCHEMA = pa.schema(
    [("time", pa.int64()), ("hit", pa.int64()), ("user", pa.string()), ("ad", pa.string()), ("place", pa.string()),
     ("sin", pa.float64()), ("cos", pa.float64()), ("clicked", pa.int64()), ("chance", pa.float64())]
)  # fmt: skip


def make_day(day: int, rows_per_hour: int, seed: int) -> pa.Table:
    """One day; depends only on its number."""
    chance = numpy_generator(seed, "click log", day)
    num_rows = 24 * rows_per_hour
    seconds = np.sort(chance.integers(0, 86400, num_rows))
    users = _zipf(chance, NUM_USERS, num_rows)
    alive = np.arange(max(0, day - DAYS_OF_AN_AD + 1) * ADS_PER_DAY, (day + 1) * ADS_PER_DAY)
    ads = chance.permutation(alive)[_zipf(chance, len(alive), num_rows)]
    places = chance.integers(0, NUM_PLACES, num_rows)
    angle = 2 * np.pi * seconds / 86400
    p = 1 / (1 + np.exp(-hidden_logit(seed, day, users, ads, places, angle)))
    columns = {
        "time": START + day * 86400 + seconds,
        "hit": day * num_rows + np.arange(num_rows),
        "user": [f"user-{number}" for number in users],
        "ad": [f"ad-{number}" for number in ads],
        "place": [f"place-{number}" for number in places],
        "sin": np.sin(angle),
        "cos": np.cos(angle),
        "clicked": (chance.random(num_rows) < p).astype(np.int64),
        "chance": p,
    }
    return pa.table(columns, schema=_SCHEMA)


def hidden_logit(
    seed: int, day: int, users: NDArray[np.int64], ads: NDArray[np.int64], places: NDArray[np.int64], angle: Array
) -> Array:
    """A drifting quality per ad, a mood per user, the place, the time of day, and whether ad and user share a topic."""
    quality = _effects(seed, "ad", (day + 1) * ADS_PER_DAY, 1.2)
    for since in range(1, day + 1):  # every day shifts all ads a little
        quality = quality + _effects(seed, f"drift {since}", len(quality), 0.15)
    mood = _effects(seed, "user", NUM_USERS, 0.8)
    shelf = _effects(seed, "place", NUM_PLACES, 0.5)
    is_match = (ads % NUM_TOPICS) == (users % NUM_TOPICS)
    logit: Array = -2.2 + quality[ads] + mood[users] + shelf[places] + 0.3 * np.sin(angle) + 0.8 * is_match
    return logit


def _effects(seed: int, purpose: str, count: int, scale: float) -> Array:
    return scale * numpy_generator(seed, f"click log {purpose}").standard_normal(count)


def _zipf(chance: np.random.Generator, count: int, num_rows: int) -> NDArray[np.int64]:
    """Ranks 0 to count - 1, the most frequent first."""
    weights = 1 / np.arange(1, count + 1)
    return chance.choice(count, num_rows, p=weights / weights.sum())


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("path", type=Path)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--rows-per-hour", type=int, default=2000)
    arguments = parser.parse_args()
    write_log(arguments.path, arguments.days, arguments.rows_per_hour)
