"""Lists, compares and clusters ten thousand runs, and checksums a hundred thousand files: Samovar's commands against
plain readers of the same files and against sha256sum. The runs are copies of one that `results` made."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave, time_call

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.results.artifacts import METRICS_LOG
from samovar.seeds import numpy_generator
from samovar.store import LocalStore

LEAST_OF_PLAIN = 0.03  # start, config, status, lineage and metrics of each run, against its config alone
LEAST_OF_SHA256SUM = 1.5
LEAST_OF_FIRST = 20.0
NUM_HOURS = 24
FILES_IN_FOLDER = 500

PLAIN = "every config read with json"
SHA256SUM = "sha256sum, one after the other"
TIMED = """
import sys, time
from pathlib import Path
from samovar.runs import checksum
start = time.perf_counter()
checksum([Path(sys.argv[1])], use_cache=bool(sys.argv[2])).digest
print(time.perf_counter() - start)
"""
FIRST, SECOND = "samovar, first time", "samovar, second time"


# Runs


def make_runs(folder: Path, count: int) -> None:
    """One run as Samovar makes it, and copies with a different config each."""
    config: dict[str, Any] = {
        "pipeline": "online",
        "num_threads": 2,
        "model": {"lr": 0.1, "dim": 8, "dropout": 0.0, "arch": "base"},
        "train_data": {"table": "clicks", "targets": ["clicked"], "features": [f"f{i}" for i in range(20)]},
        "evaluation": {"eval_confs": [{"name": "next", "table": "clicks", "keys": ["hit"], "shifts": [1]}]},
    }
    make_run(folder / "first", config)
    files = {path.relative_to(folder / "first"): path.read_bytes() for path in _files(folder / "first")}
    for number in range(count - 1):
        copied = {**files, Path("model_config.json"): json.dumps(_vary(config, number), indent=2).encode()}
        run = folder / f"{number // 1000:02d}" / f"{number:05d}"
        for name, data in copied.items():
            (run / name).parent.mkdir(parents=True, exist_ok=True)
            (run / name).write_bytes(data)


def make_run(folder: Path, config: Mapping[str, Any]) -> None:
    with begin(ResultDirectory(LocalStore(folder)), ResultPlan("model", config, b"script")) as result:
        result.restore()
        for hour in range(NUM_HOURS):
            place = {"uri": hour, "num_examples": 320}
            result.append(METRICS_LOG, {"kind": "train", **place, "name": f"hour {hour}", "loss": 1 / (hour + 1)})
            quality = {"auc": 0.5 + hour / 100, "log_loss": 0.6, "calibration": 1.0}
            result.append(METRICS_LOG, {"kind": "evaluation", **place, "name": "next", "shift": 1, **quality})
        result.save({"weights": 1}, NUM_HOURS)
        result.finish({"weights": 1}, NUM_HOURS)


def _vary(config: Mapping[str, Any], number: int) -> dict[str, Any]:
    model = {
        "lr": 10 ** -(number % 10 / 3),
        "dim": 2 ** (number // 10 % 6),
        "dropout": number // 60 % 10 / 10,
        "arch": ("base", "wide", "deep")[number // 600 % 3],
    }
    return {**config, "model": model, "seed": number // 1800}


def _files(folder: Path) -> list[Path]:
    return [path for path in sorted(folder.rglob("*")) if path.is_file()]


def read_plainly(folder: Path) -> int:
    """The least that any tool must do: find the configs and parse them."""
    found = 0
    for place, folders, names in os.walk(folder):
        if "model_config.json" in names:
            folders.clear()
            with open(os.path.join(place, "model_config.json"), "rb") as file:
                found += len(json.load(file))
    return found


def measure_runs(folder: Path, count: int, rounds: int) -> Section:
    make_runs(folder, count)
    commands = {
        "samovar ls, sorted by auc": ["ls", folder, "--where", "lr>0.01", "--sort", "-auc"],
        "samovar diff": ["diff", folder],
        "samovar tree": ["tree", folder, "--metric", "auc"],
    }
    timers: dict[str, Callable[[], float]] = {
        PLAIN: partial(time_call, partial(read_plainly, folder)),
        "find": partial(time_call, partial(call, ["find", folder, "-name", "model_config.json"])),
    }
    for name, arguments in commands.items():
        command = [sys.executable, "-m", "samovar", *arguments]
        timers[f"{name}, first time"] = partial(time_call, partial(call_without_index, command))
        timers[f"{name}, second time"] = partial(time_call, partial(call, command))
    seconds = interleave(timers, rounds, "runs")
    promises = [
        Promise(name, PLAIN, LEAST_OF_PLAIN, f"{statistics.median(seconds[name]):.1f} s, start included")
        for name in timers
        if name.startswith("samovar")
    ]
    return Section(f"{count:,} runs", seconds, count, "runs", PLAIN, promises)


def call_without_index(command: list[Any]) -> None:
    """The index is in the temporary folder, so a new folder means no index."""
    with tempfile.TemporaryDirectory(prefix="samovar-bench-") as folder:
        call(command, {**os.environ, "TMPDIR": folder})


def call(command: list[Any], environment: Mapping[str, str] | None = None) -> None:
    words = [str(part) for part in command]
    subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=True, env=environment)


# Checksums


def make_files(folder: Path, count: int, mean_bytes: int) -> None:
    """Random bytes; sizes spread evenly from zero to twice the mean."""
    chance = numpy_generator(1, "files")
    sizes = chance.integers(0, 2 * mean_bytes, count)
    content = chance.bytes(2 * mean_bytes + count)
    for number, size in enumerate(sizes.tolist()):
        path = folder / f"{number // FILES_IN_FOLDER:04d}" / f"{number % FILES_IN_FOLDER:04d}.bin"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content[number : number + size])


def measure_checksums(folder: Path, count: int, mean_bytes: int, is_cold: bool, rounds: int) -> Section:
    """Cold: the page cache is dropped before each turn that reads, as for a folder that was never read."""
    files = _files(folder)
    names = b"\0".join(os.fsencode(path) for path in files)
    time_inside(folder, True)  # from here on all files are known

    def timed(act: Callable[[], float]) -> float:
        if is_cold:
            drop_pages(files)
        return act()

    timers = {
        SHA256SUM: partial(timed, partial(time_call, partial(run_sha256sum, names))),
        FIRST: partial(timed, partial(time_inside, folder, False)),
        SECOND: partial(time_inside, folder, True),
    }
    state = "not in memory" if is_cold else "in memory"
    title = f"{count:,} files of {mean_bytes / 1000:.0f} kB on average, {state}"
    seconds = interleave(timers, rounds, title)
    promises = [Promise(FIRST, SHA256SUM, LEAST_OF_SHA256SUM)]
    if is_cold:  # the first time that these files are read
        promises.append(Promise(SECOND, FIRST, LEAST_OF_FIRST))
    return Section(title, seconds, count / 1000, "k files", SHA256SUM, promises)


def time_inside(folder: Path, use_cache: bool) -> float:
    """Seconds in a separate process: this one has a thread that draws progress and must not fork."""
    command = [sys.executable, "-c", TIMED, str(folder), "known" if use_cache else ""]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def run_sha256sum(names: bytes) -> None:
    subprocess.run(["xargs", "-0", "sha256sum"], input=names, stdout=subprocess.DEVNULL, check=True)


def drop_pages(files: list[Path]) -> None:
    for path in files:
        descriptor = os.open(path, os.O_RDONLY)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(descriptor)


def compare_runs(options: argparse.Namespace, folder: Path) -> Report:
    section = measure_runs(folder, options.runs, options.rounds)
    return Report(f"Runs side by side, {options.rounds} interleaved rounds, medians", [section])


def compare_checksums(options: argparse.Namespace, folder: Path) -> Report:
    make_files(folder, options.files, options.mean_bytes)
    os.sync()  # dirty pages cannot be dropped
    sections = [
        measure_checksums(folder, options.files, options.mean_bytes, is_cold, options.rounds)
        for is_cold in (False, True)
    ]
    return Report(f"Checksums, {options.rounds} interleaved rounds, medians", sections)


PARTS = {"runs": compare_runs, "checksums": compare_checksums}


def run(options: argparse.Namespace) -> Iterator[Report]:
    for part in [options.only] if options.only else PARTS:
        with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
            yield PARTS[part](options, Path(folder))


def main() -> int:
    parser = CommandLine(
        __doc__,
        rounds=Size(3, 1),
        runs=Size(10_000, 20),
        files=Size(100_000, 50),
        mean_bytes=Size(32_000, 1_000, "of a file"),
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    options = parser.read()
    return publish(run(options), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
