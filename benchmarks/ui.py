"""A page of ten thousand runs: the processor time of a filter beside that of a warm `samovar ls` of the same question,
when the first page is there, and memory. The runs are copies of one that `results` made."""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import interleave
from benchmarks.experiments import make_runs
from tests.ui.serving import Served, serving

LEAST_OF_LS = 20.0
"""Filters for the processor time of one `samovar ls`."""
MOST_MEGABYTES = 300.0
FILTER = "/runs?where=lr%3E0.01&sort=-auc&columns=state,lr,auc"
NUM_FILTERS = 10
LS, PAGE = "samovar ls, warm", "a filter on the page"
_TICKS = os.sysconf("SC_CLK_TCK")


def run(options: argparse.Namespace) -> Iterator[Report]:
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        make_runs(Path(folder), options.runs)
        list_once = partial(ls_seconds, Path(folder))
        list_once()  # fills the index
        began = time.perf_counter()
        with serving(Path(folder)) as served:
            first = time.perf_counter() - began
            seconds = interleave({LS: list_once, PAGE: partial(filter_seconds, served)}, options.rounds, "questions")
            megabytes = sum(map(memory_of, family(served.pid)))
            remark = f"{statistics.median(seconds[PAGE]) * 1000:.0f} ms; page after {first:.1f} s, {megabytes:.0f} MB"
    is_small = megabytes <= MOST_MEGABYTES
    assert options.runs < 10_000 or is_small, f"{megabytes:.0f} MB is more than {MOST_MEGABYTES:.0f}"
    section = Section(f"{options.runs:,} runs", seconds, 1, "questions", LS, [Promise(PAGE, LS, LEAST_OF_LS, remark)])
    yield Report(f"A page of many runs, processor time, {options.rounds} interleaved rounds, medians", [section])


def ls_seconds(folder: Path) -> float:
    """Processor time of the command and its children."""
    words = ["ls", str(folder), "--where", "lr>0.01", "--sort", "-auc", "--columns", "state,lr,auc", "--json"]
    before = os.times()
    subprocess.run([sys.executable, "-m", "samovar", *words], stdout=subprocess.DEVNULL, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def filter_seconds(served: Served) -> float:
    """Processor time of the server per filter; another one each time, so that no answer is known."""
    before = processor_seconds(served.pid)
    for number in range(NUM_FILTERS):
        answer = served.ask(f"{FILTER}&where=dim%3E{number / 100}")
        assert answer.status == 200, answer.text
        assert answer.text.count("<tr data-run") <= 200
    return max(processor_seconds(served.pid) - before, 1 / _TICKS) / NUM_FILTERS


def processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS


def family(pid: int) -> list[int]:
    """A process and its children."""
    children = Path(f"/proc/{pid}/task").glob("*/children")
    return [pid, *(int(child) for file in children for child in file.read_text().split())]


def memory_of(pid: int) -> float:
    """Megabytes that are its own, not shared with others."""
    lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def main() -> int:
    options = CommandLine(__doc__, rounds=Size(5, 1), runs=Size(10_000, 300)).read()
    return publish(run(options), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
