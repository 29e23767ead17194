"""Reading minibatches: Samovar's tables against bare zstd over the same cells and against peers.

Every contestant yields the same tensors of the same rows from files in a warm page cache; that is proven first.
`make bench` installs the peers into build/peers.
"""

import gc
import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, repeat
from pathlib import Path

from benchmarks.contest.clicks import Columns
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Bar, Promise, Report, Section, three_digits
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import Seconds, interleave, paired_ratio
from benchmarks.loaders.base import BATCH_SIZE, Loader, touch
from benchmarks.loaders.lineup import BEATEN, COLLATED, LIMIT, LITDATA, SAMOVAR, UNCOMPRESSED, Lineup
from benchmarks.loaders.tables import write_table

from samovar.store import LocalStore
from samovar.testing.store import CountingStore

LEAST_OF_LIMIT = 0.65
LEAST_OF_COLLATED = 20.0
LEAST_OF_LITDATA = 0.75  # it checks nothing
ASKED = ("c3", "c17", "m2", "r5", "label")
SLACK = 1.01
EXTRA_BYTES = 256 << 20
CACHE_BYTES = 64 << 20
REPEATS = 5


def time_epoch(loader: Loader, is_touched: bool, num_batches: int) -> float:
    """Seconds for all minibatches; scaled up for loaders that read fewer."""
    start = time.perf_counter()
    for batch in loader.epoch():
        if is_touched:
            touch(batch)
    return (time.perf_counter() - start) * num_batches / loader.num_batches


def compete(loaders: Sequence[Loader], is_touched: bool, rounds: int, num_batches: int) -> Seconds:
    timers = {loader.name: partial(time_epoch, loader, is_touched, num_batches) for loader in loaders}
    return interleave(timers, rounds, "touched" if is_touched else "handed out")


# Promises


def promise_speeds(handed_out: Seconds) -> list[Promise]:
    """Promises are about touched bytes; the ratio without touching is shown beside it."""
    least = [(SAMOVAR[threads], LIMIT[threads], LEAST_OF_LIMIT) for threads in (1, 2)]
    least += [(SAMOVAR[2], COLLATED, LEAST_OF_COLLATED), (UNCOMPRESSED, LITDATA, LEAST_OF_LITDATA)]
    least += [(SAMOVAR[2], peer, 1.0) for peer in BEATEN]
    return [
        Promise(contestant, peer, share, f"untouched {three_digits(paired_ratio(handed_out, contestant, peer))}")
        for contestant, peer, share in least
    ]


def judge_bytes(batches: Iterable[Columns]) -> Bar:
    store = CountingStore()
    table = write_table(store, batches, "zstd")
    segment = table.manifests[-1].segment
    store.bytes_read = 0
    for _ in table.read(ASKED):
        pass
    cells = sum(segment.column_bytes[name] for name in ASKED)
    footers = sum(entry.size - entry.index_at for entry in segment.files)
    return Bar(
        f"reading {len(ASKED)} of {len(table.columns)} columns reads their cells ± 1 % plus the footer",
        f"{store.bytes_read:,} bytes; cells {cells:,}, footer {footers:,}",
        cells / SLACK <= store.bytes_read <= cells * SLACK + footers,
    )


def judge_memory(batches: Iterable[Columns], folder: Path) -> Bar:
    """In its own process: this one would reuse memory that it has freed."""
    table = write_table(LocalStore(folder / "repeated"), batches, "zstd")
    command = [sys.executable, "-m", "benchmarks.loaders.memory", table.name, str(CACHE_BYTES)]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True, cwd=Path(__file__).parents[1])
    growth = json.loads(done.stdout)
    return Bar(
        f"a slow consumer: takes no more than {CACHE_BYTES >> 20} MiB of max_cache_size and {EXTRA_BYTES >> 20} MiB",
        f"{growth['RssAnon'] / 2**20:.0f} MiB; and mapped pages of the file, {growth['RssFile'] / 2**20:.0f} MiB",
        growth["RssAnon"] <= CACHE_BYTES + EXTRA_BYTES,
    )


def run(num_batches: int, num_slow: int, rounds: int, folder: Path) -> Iterator[Report]:
    lineup = Lineup(folder, num_batches, num_slow)
    loaders = lineup.open()
    lineup.prove(loaders)
    os.sync()  # do not charge readers for writing
    gc.collect()
    gc.freeze()  # keep the contest's own objects out of garbage collection during reads
    touched = compete(loaders, True, rounds, num_batches)
    handed_out = compete(loaders, False, rounds, num_batches)
    repeated = chain.from_iterable(lineup.batches() for _ in repeat(None, REPEATS))
    bars = [judge_bytes(lineup.batches()), judge_memory(repeated, folder)]
    thousands = num_batches * BATCH_SIZE / 1000
    sections = [
        Section("every byte touched", touched, thousands, "k rows", LIMIT[2], promise_speeds(handed_out)),
        Section("handed out, not touched", handed_out, thousands, "k rows", LIMIT[2]),
    ]
    title = (
        f"{num_batches} minibatches of {BATCH_SIZE} rows, {rounds} interleaved rounds, medians; * {num_slow} of them"
    )
    yield Report(title, sections, bars)


def main() -> int:
    options = CommandLine(
        __doc__,
        rounds=Size(5, 2),
        batches=Size(400, 20, "minibatches"),
        slow_batches=Size(10, 1, "minibatches for who goes row by row"),
    ).read()
    warnings.filterwarnings("ignore", "The given (NumPy array|buffer) is not writable")  # Arrow's never are
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        reports = run(options.batches, options.slow_batches, options.rounds, Path(folder))
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
