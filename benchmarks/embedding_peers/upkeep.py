"""What hash tables need besides a training step: growth, sweep, dump and load. Samovar alone, or against the disk."""

import gc
import os
import statistics
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch
from benchmarks.contest.memory import touch_memory
from benchmarks.contest.report import Bar, Promise, Report, Section
from benchmarks.contest.rounds import Seconds, interleave, time_call
from benchmarks.embedding_peers.base import DIM, FRESH_BYTES, NUM_THREADS, hash_ids, popular_ids
from benchmarks.embedding_peers.hash_embedding import Trainee, make_trainee
from benchmarks.snapshot import BLOCK_BYTES, PLAIN_WRITE, Prepare, synced, time_loading, time_saving, write_plainly
from numpy.typing import NDArray
from rich.progress import track

from samovar.embeddings import HashAdagrad
from samovar.results.checked import FileRecord
from samovar.results.state import read_state, write_state
from samovar.seeds import numpy_generator
from samovar.store import LocalStore
from samovar.tables import Bag

FEW_FEATURES = 8  # more than a gigabyte of embedding rows, and a dump that fits the disk
TTL = 2
LEAST_OF_SCAN = 0.05  # of numpy over bare stamps: buckets hold ids and row numbers beside them
MOST_INDEX_BYTES = 24.0
LEAST_OF_WRITE, LEAST_OF_READ = 0.6, 0.4  # a load also inserts every id, which a fast disk does not hide
GROWTH_FROM, GROWTH_TO = 6, 16  # times `num_ids`; it more than doubles, so every part of the table grows at least once
FRESH_STEPS = 64  # memory for this many steps of growth is touched beforehand
IDS_PER_STEP = 4096
LEAST_OF_MEDIAN = 0.2  # of the slowest step in a hundred: growth is spread over many steps
MEDIAN_STEP, SLOW_STEP = "the median step", "the slowest of 100 steps"
SCAN = "numpy over stamps alone, 1 thread"
PLAIN_READ = "plain read of 8 MB blocks"
DUMP = "Samovar dump"
LOAD = "Samovar load"


# Growth


def run_growth(num_ids: int, rounds: int) -> Report:
    """One table; every step brings only new ids. A step does the same work in each round, so its fastest time counts:
    the host of a virtual machine sometimes takes milliseconds for a page of memory, or takes the core itself."""
    torch.set_num_threads(NUM_THREADS)
    first, last = GROWTH_FROM * num_ids, GROWTH_TO * num_ids
    ends = range(first + IDS_PER_STEP, last, IDS_PER_STEP)
    found = [_grow(first, ends, f"growth, round {number + 1} of {rounds}") for number in range(rounds)]
    walls = [min(times) for times in zip(*(times for times, _ in found), strict=True)]
    bytes_per_row = [size / rows for size, rows in zip(found[0][1], ends, strict=True)]
    what = f"One table from {first:,} to {last:,} rows, {IDS_PER_STEP} new ids per step"
    return _tell_growth(what, rounds, walls, max(max(times) for times, _ in found), bytes_per_row)


def _grow(first: int, ends: range, what: str) -> tuple[list[float], list[int]]:
    """Seconds and index bytes of each step."""
    trainee = Trainee(HashAdagrad, 1)
    trainee.insert(np.arange(first, dtype=np.int32))
    gradient = torch.randn(IDS_PER_STEP, DIM)
    walls: list[float] = []
    index_bytes: list[int] = []
    for number, end in enumerate(track(ends, what, transient=True)):
        if number % FRESH_STEPS == 0:
            touch_memory(FRESH_BYTES)
        inputs = {"c0": _bag_of_ones(np.arange(end - IDS_PER_STEP, end, dtype=np.int32))}
        walls.append(time_call(partial(trainee.step, inputs, gradient)))
        index_bytes.append(trainee.embedding.counters()["c0"].index_bytes)
    return walls, index_bytes


def _tell_growth(
    what: str, rounds: int, walls: Sequence[float], longest: float, bytes_per_row: Sequence[float]
) -> Report:
    title = f"{what}, the fastest time of each step in {rounds} rounds; the longest of all was {1000 * longest:.1f} ms"
    high = float(np.quantile(walls, 0.99))
    steps = {
        MEDIAN_STEP: [statistics.median(walls)],
        SLOW_STEP: [high],
        "the slowest step": [max(walls)],
    }
    promises = [Promise(SLOW_STEP, MEDIAN_STEP, LEAST_OF_MEDIAN)]
    section = Section("new ids only", steps, IDS_PER_STEP / 1000, "k ids", MEDIAN_STEP, promises)
    least = min(bytes_per_row)
    bars = [
        Bar(
            f"index and stamps take at most {MOST_INDEX_BYTES:g} bytes per embedding row just before they grow",
            f"{least:.1f}; while they grow up to {max(bytes_per_row):.1f}",
            least <= MOST_INDEX_BYTES,
        ),
    ]
    return Report(title, [section], bars)


def _bag_of_ones(ids: NDArray[np.int32]) -> Bag:
    hashes = torch.from_numpy(hash_ids(ids, 0).view(np.int64))
    return Bag(hashes, torch.ones(len(ids), dtype=torch.int32))


# Sweep


def run_sweep(num_ids: int, rounds: int) -> Report:
    trainee = Trainee(HashAdagrad, FEW_FEATURES, TTL)
    trainee.insert(popular_ids(num_ids))
    timers: dict[str, Callable[[], float]] = {}
    for num_threads, name in ((1, "1 thread"), (2, "2 threads")):
        timers[f"nothing expired, {name}"] = partial(time_sweep, trainee, num_ids, num_threads, 0)
        timers[f"half expired, {name}"] = partial(time_sweep, trainee, num_ids, num_threads, num_ids // 2)
    stamps = np.ones(FEW_FEATURES * num_ids, np.uint32)
    timers[SCAN] = partial(time_call, lambda: np.count_nonzero(np.uint32(TTL + 1) - stamps > TTL))
    seconds = interleave(timers, rounds, "sweep")
    promises = [Promise("nothing expired, 1 thread", SCAN, LEAST_OF_SCAN)]
    title = f"{FEW_FEATURES} tables of {num_ids:,} ids"
    return Report(f"sweep, {rounds} rounds", [Section(title, seconds, len(stamps) / 1e6, "M ids", SCAN, promises)])


def time_sweep(trainee: Trainee, num_ids: int, num_threads: int, num_expired: int) -> float:
    """Sweep full tables in which `num_expired` ids each have outlived the ttl. Leaves the tables full and fresh."""
    if num_expired:
        for _ in range(TTL):
            trainee.embedding.advance_clock()
        trainee.insert(popular_ids(num_ids)[num_expired:])
        trainee.embedding.advance_clock()
    torch.set_num_threads(num_threads)
    freed: list[int] = []
    seconds = time_call(lambda: freed.append(trainee.embedding.sweep()))
    torch.set_num_threads(NUM_THREADS)
    assert freed == [num_expired * FEW_FEATURES], freed
    if num_expired:
        trainee.insert(popular_ids(num_ids))
    return seconds


# Dump and load


def run_disk(num_ids: int, rounds: int, folder: Path) -> Report:
    torch.set_num_threads(NUM_THREADS)
    trainee = make_trainee(HashAdagrad, num_ids, FEW_FEATURES)
    records = dump(trainee, folder / "loading")
    size_bytes = sum(path.stat().st_size for path in _dumped(folder))
    block = numpy_generator(1, "plain write").integers(0, 2**32, size_bytes // 4, np.uint32).view(np.float32)
    saves = time_dumps(trainee, block, rounds, folder)
    del trainee
    write_plainly({"all": block}, folder / "plain")
    del block
    gc.collect()
    cold = time_loads(records, num_ids, True, rounds, folder)
    warm = time_loads(records, num_ids, False, rounds, folder)
    megabytes = size_bytes / 1e6
    sections = [
        Section("dump + fsync", saves, megabytes, "MB", PLAIN_WRITE, [Promise(DUMP, PLAIN_WRITE, LEAST_OF_WRITE)]),
        Section("load from the disk", cold, megabytes, "MB", PLAIN_READ, [Promise(LOAD, PLAIN_READ, LEAST_OF_READ)]),
        Section("load from a warm page cache", warm, megabytes, "MB", PLAIN_READ),
    ]
    return Report(f"{megabytes:,.0f} MB: {FEW_FEATURES} tables of {num_ids:,} rows, {rounds} rounds", sections)


def time_dumps(trainee: Trainee, block: NDArray[np.float32], rounds: int, folder: Path) -> Seconds:
    plain = partial(synced, partial(write_plainly, {"all": block}))
    savers: dict[str, Prepare] = {PLAIN_WRITE: plain, DUMP: lambda place: nullcontext(partial(dump, trainee, place))}
    timers = {name: partial(time_saving, save, folder, block.nbytes) for name, save in savers.items()}
    return interleave(timers, rounds, "dump")


def dump(trainee: Trainee, place: Path) -> dict[str, FileRecord]:
    return write_state(LocalStore(place), "s", trainee.embedding.state_dict())


def time_loads(records: dict[str, FileRecord], num_ids: int, is_cold: bool, rounds: int, folder: Path) -> Seconds:
    size_bytes = (folder / "plain").stat().st_size

    def time_load() -> float:
        embedding = Trainee(HashAdagrad, FEW_FEATURES)
        act = partial(load, embedding, folder / "loading", records)
        seconds = time_loading(act, size_bytes)
        assert all(counters.rows == num_ids for counters in embedding.embedding.counters().values())
        return seconds

    def time_read() -> float:
        return time_loading(partial(read_plainly, folder / "plain"), size_bytes)

    def after_preparing(act: Callable[[], float]) -> float:
        prepare_cache(folder, is_cold)
        return act()

    timers = {PLAIN_READ: partial(after_preparing, time_read), LOAD: partial(after_preparing, time_load)}
    return interleave(timers, rounds, f"load from {'the disk' if is_cold else 'a warm page cache'}")


def load(trainee: Trainee, place: Path, records: dict[str, FileRecord]) -> None:
    trainee.embedding.load_state_dict(read_state(LocalStore(place), "s", records))


def prepare_cache(folder: Path, is_cold: bool) -> None:
    """Drop the files from the page cache, or read them once."""
    os.sync()
    for path in [folder / "plain", *_dumped(folder)]:
        if is_cold:
            with path.open("rb") as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        else:
            read_plainly(path)


def _dumped(folder: Path) -> list[Path]:
    return [path for path in (folder / "loading").rglob("*") if path.is_file()]


def read_plainly(path: Path) -> NDArray[np.uint8]:
    data = np.empty(path.stat().st_size, np.uint8)
    with path.open("rb", buffering=0) as file:
        for first in range(0, len(data), BLOCK_BYTES):
            file.readinto(data[first : first + BLOCK_BYTES].data)
    return data
