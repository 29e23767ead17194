"""Whether memory stays flat in a run without new ids: epochs over one table, 10 million rows after warm-up."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.contest.clicks import make_clicks
from benchmarks.contest.report import Bar, Report
from benchmarks.loaders.base import BATCH_SIZE
from benchmarks.training_peers import data
from benchmarks.training_peers.base import NUM_THREADS
from benchmarks.training_peers.process import Contender
from rich.progress import track

EPOCH_BATCHES = 400
NUM_ROWS = 10_000_000
WARM_UP_EPOCHS = 2
MOST_APART = 0.05


def run(folder: Path, start: Callable[[Path], Contender]) -> Iterator[Report]:
    """`start` starts the process for a config."""
    data.write_hours(folder / data.TABLE, make_clicks(EPOCH_BATCHES * BATCH_SIZE), EPOCH_BATCHES)
    num_epochs = -(-NUM_ROWS // (EPOCH_BATCHES * BATCH_SIZE))
    config = {
        "pipeline": "offline",
        "model": {"hours_per_turn": 1},
        "num_threads": NUM_THREADS,
        "train_data": {
            "table": str(folder / data.TABLE),
            "targets": ["label"],
            "epoch_count": WARM_UP_EPOCHS + num_epochs + 1,
            "uri_granularity": EPOCH_BATCHES,
        },
    }
    path = folder / "memory.json"
    path.write_text(json.dumps(config))
    with start(path) as contender:
        for _ in range(WARM_UP_EPOCHS):
            contender.ask("memory")
        before = _resident_bytes(contender.pid)
        sizes = []
        for _ in track(range(num_epochs), "epochs", transient=True):
            contender.ask("memory")
            sizes.append(_resident_bytes(contender.pid))
    least, most = min(sizes) / before - 1, max(sizes) / before - 1
    rows = f"{num_epochs * EPOCH_BATCHES * BATCH_SIZE:,} rows"
    found = f"{before / 2**20:,.0f} MiB, then {least:+.1%} to {most:+.1%}, at the end {sizes[-1] / before - 1:+.1%}"
    bar = Bar(f"resident memory within 5 % over {rows}", found, max(-least, most) <= MOST_APART)
    yield Report("memory of a run that meets no new ids", bars=[bar])


def _resident_bytes(pid: int) -> int:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmRSS:"))
