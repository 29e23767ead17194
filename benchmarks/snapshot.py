"""Saving and loading a gigabyte: Samovar's state against peers and against a plain write.

Every contestant writes a new file that must survive power loss. Knows the disk only as a folder.
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from pathlib import Path

import numpy as np
import torch
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.memory import touch_memory
from benchmarks.contest.report import Bar, Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave, time_call
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.state import read_state, write_state
from samovar.seeds import numpy_generator
from samovar.store import LocalStore

PLAIN_WRITE = "plain os.write of 8 MB blocks"
SAFETENSORS = "safetensors save_file"
STATE = "Samovar write_state"
PLAIN_READ = "numpy fromfile"
NOISE = 0.05  # how much a median of paired ratios varies between runs
PROMISES = (Promise(STATE, PLAIN_WRITE, 0.7), Promise(STATE, SAFETENSORS, 1 - NOISE, f"{NOISE} allowed for noise"))
EXTRA_BYTES = 64 << 20
BLOCK_BYTES = 8 << 20
PAGE_BYTES = 4096

Tree = dict[str, torch.Tensor]
Act = Callable[[], object]
Prepare = Callable[[Path], AbstractContextManager[Act]]
"""Takes a new folder and returns the timed action."""


def make_tree(num_arrays: int, size_bytes: int) -> Tree:
    shape = size_bytes // num_arrays // 4
    return {
        f"layer{i}": torch.from_numpy(numpy_generator(1, "benchmark", i).standard_normal(shape, np.float32))
        for i in range(num_arrays)
    }


def as_numpy(tree: Tree) -> dict[str, NDArray[np.float32]]:
    return {name: tensor.numpy() for name, tensor in tree.items()}


# Saving


def savers(tree: Tree) -> dict[str, Prepare]:
    return {
        PLAIN_WRITE: partial(synced, partial(write_plainly, as_numpy(tree))),
        "numpy tofile": partial(synced, partial(write_tofile, as_numpy(tree))),
        SAFETENSORS: partial(synced, partial(save_file, tree)),
        "torch.save": partial(synced, partial(torch.save, tree)),
        STATE: lambda folder: nullcontext(partial(write_state, LocalStore(folder), "s", tree)),
        "Samovar OpenResult.save": partial(in_result, tree),
    }


def synced(save: Callable[[Path], object], folder: Path) -> AbstractContextManager[Act]:
    """A peer's save, followed by fsync."""

    def act() -> None:
        save(folder / "file")
        descriptor = os.open(folder / "file", os.O_RDONLY)
        os.fsync(descriptor)
        os.close(descriptor)

    return nullcontext(act)


def write_plainly(arrays: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
    for array in arrays.values():
        rest = array.data.cast("B")
        while rest:
            rest = rest[os.write(descriptor, rest[:BLOCK_BYTES]) :]
    os.close(descriptor)


def write_tofile(arrays: Mapping[str, NDArray[np.float32]], path: Path) -> None:
    with path.open("xb") as file:
        for array in arrays.values():
            array.tofile(file)


@contextmanager
def in_result(tree: Tree, folder: Path) -> Iterator[Act]:
    directory = ResultDirectory(LocalStore(folder / "result"))
    with begin(directory, ResultPlan("benchmark", {}), heartbeat_seconds=None) as result:
        result.restore()
        yield partial(result.save, tree, {"step": 1})


def time_saving(prepare: Prepare, folder: Path, size_bytes: int) -> float:
    """`size_bytes` are about to be written."""
    place = folder / "saving"
    place.mkdir()
    with prepare(place) as act:
        os.sync()  # do not charge the next contestant for earlier writes
        touch_memory(size_bytes * 5 // 4)
        seconds = time_call(act)
    shutil.rmtree(place)
    os.sync()
    return seconds


# Loading


def loaders(tree: Tree, folder: Path) -> dict[str, Act]:
    """Write one file per contestant; returns what reads it."""
    write_tofile(as_numpy(tree), folder / "numpy")
    torch.save(tree, folder / "torch")
    save_file(tree, folder / "safetensors")
    store = LocalStore(folder / "samovar")
    records = write_state(store, "s", tree)
    return {
        PLAIN_READ: partial(read_fromfile, [tensor.numel() for tensor in tree.values()], folder / "numpy"),
        "torch.load, weights only": partial(torch.load, folder / "torch", weights_only=True),
        "safetensors load_file + touch": lambda: touch(load_file(folder / "safetensors")),
        "Samovar read_state, all checked, + touch": lambda: touch(read_state(store, "s", records)),
    }


def read_fromfile(sizes: list[int], path: Path) -> list[NDArray[np.float32]]:
    with path.open("rb") as file:
        return [np.fromfile(file, np.float32, size) for size in sizes]


def touch(tree: Tree) -> int:
    """Read one byte of every page: a mapping that is not read is not loaded."""
    return sum(int(tensor.numpy().view(np.uint8)[::PAGE_BYTES].sum()) for tensor in tree.values())


def time_loading(act: Act, size_bytes: int) -> float:
    os.sync()
    touch_memory(2 * size_bytes * 5 // 4)  # for the page cache and for what is read into
    return time_call(act)


# Memory


def measure_extra(tree: Tree, folder: Path) -> int:
    """Bytes by which the process grows during a save."""
    Path("/proc/self/clear_refs").write_text("5")  # resets VmHWM to current use
    before = memory_bytes("VmRSS")
    write_state(LocalStore(folder / "peak"), "s", tree)
    extra = memory_bytes("VmHWM") - before
    shutil.rmtree(folder / "peak")
    return extra


def memory_bytes(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return int(line.split()[1]) << 10


def judge_memory(size_bytes: int, folder: Path) -> list[Bar]:
    tree = make_tree(4, size_bytes)
    across = {name: tensor.reshape(1024, -1).T for name, tensor in tree.items()}  # must be copied to be written
    return [judge_extra("plain", tree, folder), judge_extra("transposed", across, folder)]


def judge_extra(kind: str, tree: Tree, folder: Path) -> Bar:
    array_bytes = max(tensor.nbytes for tensor in tree.values())
    extra = measure_extra(tree, folder)
    return Bar(
        f"saving {len(tree)} {kind} arrays of {array_bytes >> 20} MiB takes less than {EXTRA_BYTES >> 20} MiB "
        "and one array",
        f"{extra / 2**20:.1f} MiB",
        extra < EXTRA_BYTES + array_bytes,
    )


def run(size_bytes: int, num_arrays: int, rounds: int, folder: Path) -> Iterator[Report]:
    memory = judge_memory(size_bytes, folder)
    tree = make_tree(num_arrays, size_bytes)
    saving = {name: partial(time_saving, prepare, folder, size_bytes) for name, prepare in savers(tree).items()}
    saves = interleave(saving, rounds, "saving")
    loading = {name: partial(time_loading, act, size_bytes) for name, act in loaders(tree, folder).items()}
    loads = interleave(loading, rounds, "loading")
    megabytes = size_bytes / 1e6
    sections = [
        Section("save + fsync", saves, megabytes, "MB", PLAIN_WRITE, PROMISES),
        Section("load, page cache warm", loads, megabytes, "MB", PLAIN_READ),
    ]
    title = f"{megabytes:,.0f} MB in {num_arrays} arrays, {rounds} interleaved rounds, medians"
    yield Report(title, sections, memory)


def main() -> int:
    options = CommandLine(__doc__, rounds=Size(5, 2), megabytes=Size(1024, 16), arrays=Size(16, 16)).read()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        reports = run(options.megabytes << 20, options.arrays, options.rounds, Path(folder))
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
