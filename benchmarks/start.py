"""How much processor time it takes to start: `samovar --help`, `samovar show` and `import samovar`, against a bare
Python and against `import typer`, in one run. Elapsed time would also measure the other work of the machine."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave

from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore

BARE, TYPER = "python -c pass", "import typer"
IMPORT, HELP, SHOW = "import samovar", "samovar --help", "samovar show"
LEAST_OF_BARE = 0.3
LEAST_OF_TYPER = {HELP: 0.3, SHOW: 0.12}  # parsing, help and tables of rich, and reading the directory, come on top


def run(options: argparse.Namespace) -> Iterator[Report]:
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        section = measure(Path(folder) / "result", options.rounds, options.starts)
    yield Report(f"Starting, best of {options.starts}, {options.rounds} interleaved rounds, medians", [section])


def measure(result: Path, rounds: int, num_starts: int) -> Section:
    make_result(result)
    commands: dict[str, Sequence[object]] = {
        BARE: ("-c", "pass"),
        TYPER: ("-c", "import typer"),
        IMPORT: ("-c", "import samovar"),
        HELP: ("-m", "samovar", "--help"),
        SHOW: ("-m", "samovar", "show", result),
    }
    timers = {name: partial(best_start, words, num_starts) for name, words in commands.items()}
    seconds = interleave(timers, rounds, "starts")
    promises = [Promise(IMPORT, BARE, LEAST_OF_BARE, _remark(seconds[IMPORT]))]
    promises += [Promise(name, TYPER, least, _remark(seconds[name])) for name, least in LEAST_OF_TYPER.items()]
    return Section("processor time of a start", seconds, 1, "starts", BARE, promises)


def _remark(seconds: Sequence[float]) -> str:
    return f"{statistics.median(seconds) * 1000:.0f} ms"


def make_result(folder: Path) -> None:
    with begin(ResultDirectory(LocalStore(folder)), ResultPlan("model", {"model": {"lr": 0.1}}, b"script")) as result:
        result.restore()
        result.finish({"weights": 1}, 1)


def best_start(words: Sequence[object], num_starts: int) -> float:
    """The fastest of several: the first may compile modules, others may share a core."""
    return min(processor_seconds([sys.executable, *map(str, words)]) for _ in range(num_starts))


def processor_seconds(command: Sequence[str]) -> float:
    """User and system time of a process and of its children that have ended."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    options = CommandLine(__doc__, rounds=Size(5, 1), starts=Size(5, 1, "of each per round")).read()
    return publish(run(options), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
