"""How cost grows: an embedding step with ids, features, minibatch size and threads; reading a table with rows and
columns; a training run with rows. Samovar alone, all sizes in turns; `--figures` draws the curves."""

import os
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.quiet import Patience
from benchmarks.contest.report import Report, Section
from benchmarks.contest.result import publish
from benchmarks.growing import embedding_step, reading, training_run
from benchmarks.growing.base import Chart, Turns
from benchmarks.growing.drawing import draw

PARTS = {
    "embedding_step": "A step of hash embeddings: forward, backward, Adagrad",
    "reading": "Reading a tensor table, every byte touched",
    "training_run": "A training run, `samovar train` as a process",
}

Grown = Mapping[str, Iterable[tuple[Section, Chart]]]


def grow_all(is_quick: bool, turns: Turns, few_turns: Turns, folder: Path) -> Grown:
    """Every part by name; nothing is measured until asked for."""
    num_cores = 1 if is_quick else len(os.sched_getaffinity(0))
    threads = [1 << power for power in range(num_cores.bit_length())]
    steps = embedding_step.Steps(embedding_step.QUICK if is_quick else embedding_step.Scale(), threads, turns)
    tables = reading.QUICK if is_quick else reading.Scale()
    runs = training_run.QUICK if is_quick else training_run.Scale()
    return {
        "embedding_step": steps.grow_all(),
        "reading": reading.grow_all(tables, threads, turns, folder / "reading"),
        "training_run": training_run.grow_all(runs, threads, few_turns, folder / "training_run"),
    }


def run(grown: Grown, figures: Path | None) -> Iterator[Report]:
    for name, axes in grown.items():
        sections, charts = zip(*axes, strict=True)
        if figures:
            draw(charts, figures / f"{name}.svg")
        yield Report(PARTS[name], sections)


def main() -> int:
    parser = CommandLine(
        __doc__,
        rounds=Size(7, 1),
        run_rounds=Size(3, 1, "of whole training runs"),
        patience=Size(120, 0, "seconds to wait for a quiet machine, in all"),
    )
    parser.add_argument("--only", choices=PARTS, help="one part")
    parser.add_argument("--figures", type=Path, help="draw into this folder")
    options = parser.read()
    patience = Patience(options.patience)
    turns, few_turns = Turns(options.rounds, patience), Turns(options.run_rounds, patience)
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        grown = grow_all(options.quick, turns, few_turns, Path(folder))
        chosen = {name: axes for name, axes in grown.items() if options.only in (None, name)}
        return publish(run(chosen, options.figures), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
