"""Training from disk: `samovar train` against plain torch and FBGEMM, the same model in one run; what reading, the loop
and evaluation cost; whether memory stays flat (`--memory`). The peers lie in build/peers, where `make bench` puts them.

Each contestant is a process of its own that waits for its turn. A turn is the next 64 minibatches of 1,024 rows; of who
goes row by row the next 16.
"""

import argparse
import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contest.quiet import Patience, Watch
from benchmarks.contest.report import Bar, Section, show
from benchmarks.contest.rounds import Seconds, interleave, paired_ratio
from benchmarks.training_peers import bare, data, fbgemm_batched, memory, torch_plain
from benchmarks.training_peers.base import NUM_THREADS
from benchmarks.training_peers.process import Contender, Turn

TURN_BATCHES, ROW_TURN_BATCHES = 64, 16
HOURS_A_TURN = 4
READ_AHEAD_BATCHES = 256  # nobody shall find the file's end while there are turns to come
LEAST_QUIET = 3
SAMOVAR = "Samovar"
EVALUATED = "Samovar, every hour evaluated"
AS_SAMOVAR = {"GOMP_SPINCOUNT": "20000"}  # what the command line sets for itself; peers run as they come
SCRIPT = Path(__file__).parent / "training_peers" / "script.py"


@dataclass(frozen=True)
class Promise:
    contestant: str
    peer: str
    least: float


PROMISES = (
    Promise(SAMOVAR, torch_plain.DEFAULT, 7.0),
    Promise(SAMOVAR, torch_plain.ARROW, 2.8),
    Promise(SAMOVAR, fbgemm_batched.NAME, 1.6),
    Promise(SAMOVAR, bare.NAME, 0.85),
    Promise(EVALUATED, SAMOVAR, 1 / 1.4),
)


def write_config(path: Path, table: Path, hours_a_turn: int, is_evaluated: bool) -> Path:
    """An ordinary online training; the hour after each is predicted by its model."""
    job = {"name": "log", "table": str(table), "keys": [data.KEY], "shifts": [1]}
    config: dict[str, Any] = {
        "pipeline": "online",
        "model": {"hours_a_turn": hours_a_turn},
        "num_threads": NUM_THREADS,
        "train_data": {"table": str(table), "targets": ["label"]},
        "evaluation": {"eval_confs": [job] if is_evaluated else []},
    }
    path.write_text(json.dumps(config))
    return path


def train(config: Path) -> Contender:
    return Contender("samovar", ["train", str(config), "--script", str(SCRIPT)], config.with_suffix(".log"))


@contextmanager
def start_all(folder: Path) -> Iterator[Mapping[str, Contender]]:
    """Every contestant's process."""
    plans = {
        SAMOVAR: write_config(folder / "train.json", folder / data.TABLE, HOURS_A_TURN, is_evaluated=False),
        EVALUATED: write_config(folder / "evaluated.json", folder / data.TABLE, HOURS_A_TURN, is_evaluated=True),
    }
    place = [str(folder), str(TURN_BATCHES)]
    contenders = {name: train(path) for name, path in plans.items()}
    contenders[bare.NAME] = Contender("benchmarks.training_peers.bare", place, folder / "bare.log", AS_SAMOVAR)
    contenders |= {
        name: Contender(module, arguments, folder / f"{module}.log")
        for name, module, arguments in (
            (torch_plain.ARROW, "benchmarks.training_peers.torch_plain", [*place, str(ROW_TURN_BATCHES)]),
            (fbgemm_batched.NAME, "benchmarks.training_peers.fbgemm_batched", place),
        )
    }
    with ExitStack() as stack:
        started = {name: stack.enter_context(contender) for name, contender in contenders.items()}
        tables = started[torch_plain.ARROW]  # they serve all of torch's loaders
        yield {**started, torch_plain.DEFAULT: tables, torch_plain.WIDE: tables}


class Referee:
    """Asks for turns, and keeps what was answered."""

    def __init__(self, contenders: Mapping[str, Contender]) -> None:
        self._contenders = contenders
        self._turns: dict[str, list[Turn]] = {name: [] for name in contenders}

    def ask(self, name: str) -> float:
        """Seconds for a thousand rows."""
        turn = self._contenders[name].ask(name)
        self._turns[name].append(turn)
        return turn.seconds * 1000 / turn.num_rows

    def losses(self) -> Mapping[str, float]:
        return {name: statistics.mean(turn.loss for turn in turns) for name, turns in self._turns.items()}


def compete(
    contenders: Mapping[str, Contender], rounds: int, patience: Patience
) -> tuple[Seconds, int, Mapping[str, float]]:
    """Seconds for a thousand rows in the quiet rounds (in all where those are too few), how many those are, losses."""
    referee = Referee(contenders)
    for name in contenders:  # loads, compiles, maps
        referee.ask(name)
    watch = Watch(len(contenders), patience, sorted({each.pid for each in contenders.values()}))
    timers = {name: partial(watch.follow, partial(referee.ask, name)) for name in contenders}
    seconds = interleave(timers, rounds, "training")
    quiet = watch.quiet_rounds()
    chosen: Sequence[int] = quiet if len(quiet) >= LEAST_QUIET else range(rounds)
    kept = {name: [times[number] for number in chosen] for name, times in seconds.items()}
    return kept, len(quiet), referee.losses()


def judge(promise: Promise, seconds: Seconds) -> Bar:
    ratio = paired_ratio(seconds, promise.contestant, promise.peer)
    return Bar(f"{promise.contestant} at {promise.least:.2f} of {promise.peer}", f"{ratio:.2f}", ratio >= promise.least)


def run_contest(folder: Path, rounds: int, patience: Patience) -> bool:
    turns = rounds + 1
    num_batches = turns * TURN_BATCHES + READ_AHEAD_BATCHES
    data.write_all(folder, num_batches, (turns + 1) * ROW_TURN_BATCHES, TURN_BATCHES // HOURS_A_TURN)
    with start_all(folder) as contenders:
        seconds, num_quiet, losses = compete(contenders, rounds, patience)
    title = f"from disk, B = 1024, {rounds} interleaved rounds, {num_quiet} quiet"
    section = Section(title, seconds, 1.0, "k rows", SAMOVAR)
    told = ", ".join(f"{name} {loss:.4f}" for name, loss in losses.items())
    print(f"mean losses: {told}")
    return show("26 embeddings of 16, 13 floats, MLP 256-64-1", [section], [judge(each, seconds) for each in PROMISES])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where files go for the time of the run; else a temporary folder")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--patience", type=float, default=120.0, help="seconds to wait for a quiet machine, in all")
    parser.add_argument("--memory", action="store_true", help="only this: memory over 10 million rows; takes minutes")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as name:
        folder = Path(name)
        if options.memory:
            return 0 if memory.run(folder, train) else 1
        return 0 if run_contest(folder, options.rounds, Patience(options.patience)) else 1


if __name__ == "__main__":
    sys.exit(main())
