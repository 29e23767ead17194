"""A whole `samovar train`, from its start as a process to its finished model: against the rows of its table."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from shutil import rmtree

from benchmarks.contest.clicks import cut, make_clicks
from benchmarks.contest.report import Section
from benchmarks.contest.rounds import time_call
from benchmarks.growing.base import Axis, Chart, Trial, Turns, grow
from benchmarks.loaders.base import BATCH_SIZE
from benchmarks.training_peers import data, script

ROOT = Path(__file__).parents[2]
BATCHES_AN_HOUR = 16


@dataclass(frozen=True)
class Scale:
    batches: Sequence[int] = (8, 32, 128, 512)
    few_batches: int = 128


QUICK = Scale((1, 4), 1)


def grow_all(scale: Scale, threads: Sequence[int], turns: Turns, folder: Path) -> Iterator[tuple[Section, Chart]]:
    """Offline, one epoch, the model of `benchmarks.training`, from empty tables."""
    clicks = make_clicks(scale.batches[-1] * BATCH_SIZE)
    for count in scale.batches:
        data.write_hours(folder / f"{count}", next(cut(clicks, count * BATCH_SIZE)), BATCHES_AN_HOUR)
    os.sync()  # do not charge readers for writing
    trials = [_try(count, num_threads, folder) for num_threads in threads for count in scale.batches]
    few, many = scale.few_batches * BATCH_SIZE, scale.batches[-1] * BATCH_SIZE
    title = "rows of a run, its start and its end included"
    yield grow(Axis(title, "rows", "per run", "k rows", few, many, least=0.9), trials, turns)


def _try(num_batches: int, num_threads: int, folder: Path) -> Trial:
    line = f"{num_threads} threads" if num_threads > 1 else "1 thread"
    config = folder / f"{num_batches}-{num_threads}.json"
    settings = {
        "pipeline": "offline",
        "num_threads": num_threads,
        "train_data": {"table": str(folder / f"{num_batches}"), "targets": ["label"], "epoch_count": 1},
    }
    config.write_text(json.dumps(settings))
    return Trial(num_batches * BATCH_SIZE, line, partial(_time, config), num_batches * BATCH_SIZE / 1000)


def _time(config: Path) -> float:
    command = [sys.executable, "-m", "samovar", "train", str(config), "--script", str(script.__file__)]
    with config.with_suffix(".log").open("wb") as log:
        seconds = time_call(partial(subprocess.run, command, stdout=log, stderr=log, check=True, cwd=ROOT))
    rmtree(config.with_suffix(""))
    return seconds
