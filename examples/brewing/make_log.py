"""A made-up click log as a CSV file: ids over the whole unsigned range, strings, texts, numbers, missing values.
A title with "sale" is clicked six times as often, so there is something to learn.

python examples/brewing/make_log.py clicks.csv [ROWS]
"""

import csv
import sys
from pathlib import Path

from samovar.seeds import numpy_generator

START = 1_700_000_000
HOURS = 6
WORDS = ("red", "blue", "shoes", "hat", "tea", "samovar", "зелёный", "чай", "new", "sale")


def write_log(path: Path, num_rows: int) -> None:
    """Rows that are not sorted by time, like logs from many machines."""
    chance = numpy_generator(1, "click log")
    users = chance.integers(0, 2**64, num_rows // 10 + 1, dtype="uint64")
    with path.open("x", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["time", "hit", "user", "ad", "title", "price", "clicked"])
        for number in range(num_rows):
            title = chance.choice(WORDS, 3)
            writer.writerow(
                [
                    START + int(chance.integers(HOURS * 3600)),
                    f"hit-{number}",
                    users[chance.integers(len(users))] if number % 7 else "",
                    f"ad-{int(chance.zipf(1.5)) % 5000}",
                    " ".join(title),
                    round(float(chance.exponential(20)), 2) if number % 11 else "",
                    int(chance.random() < (0.3 if "sale" in title else 0.05)),
                ]
            )


if __name__ == "__main__":
    write_log(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 50_000)
