"""Training from disk: `samovar train` against plain torch and FBGEMM with the same model; the cost of reading, the loop
and evaluation; whether memory stays flat (`--memory`). `make bench` installs the peers into build/peers.

Each contestant is its own process and waits for its turn. A turn is the next 64 minibatches of 1,024 rows, or a quarter
of them for contestants that read row by row.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.memory import touch_memory
from benchmarks.contest.quiet import Outcome, Patience, compete
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.training_peers import bare, data, fbgemm_batched, limit, memory, torch_plain
from benchmarks.training_peers.base import NUM_THREADS
from benchmarks.training_peers.process import Contender, Turn

ROW_TURN_SHARE = 4
HOURS_A_TURN = 4
READ_AHEAD_TURNS = 4  # no contestant may reach the end of the file before the last turn
SAMOVAR = "Samovar"
EVALUATED = "Samovar, every hour evaluated"
BF16 = "Samovar, bf16"
COMPILED = "Samovar, compiled"
AS_SAMOVAR = {"GOMP_SPINCOUNT": "20000"}  # what the command line sets for itself; peers run with their defaults
GROWING = (
    SAMOVAR,
    EVALUATED,
    BF16,
    COMPILED,
    bare.NAME,
    limit.NAME,
)  # their tables start empty; those of the others are fully allocated
FRESH_BYTES = 512 << 20  # more than they grow by in one turn
SCRIPT = Path(__file__).parent / "training_peers" / "script.py"


PROMISES = (
    Promise(SAMOVAR, torch_plain.ARROW, 2.0),
    Promise(SAMOVAR, fbgemm_batched.NAME, 1.5),
    Promise(BF16, fbgemm_batched.BF16, 1.5, "aim 1.6"),
    Promise(COMPILED, fbgemm_batched.COMPILED, 1.5, "aim 1.6"),
    Promise(SAMOVAR, bare.NAME, 0.8),
    Promise(SAMOVAR, limit.NAME, 0.75, "aim 0.85"),
    Promise(EVALUATED, SAMOVAR, 0.6, "aim 0.74, which is 1.35 times the time"),
)


def write_config(path: Path, table: Path, hours_per_turn: int, is_evaluated: bool = False, **keys: Any) -> Path:
    """An ordinary online training; each model predicts the following hour. `keys` are further ones of the config."""
    job = {"name": "log", "table": str(table), "keys": [data.KEY], "shifts": [1]}
    config: dict[str, Any] = {
        "pipeline": "online",
        "model": {"hours_per_turn": hours_per_turn},
        "num_threads": NUM_THREADS,
        "train_data": {"table": str(table), "targets": ["label"]},
        "evaluation": {"eval_confs": [job] if is_evaluated else []},
        **keys,
    }
    path.write_text(json.dumps(config))
    return path


def train(config: Path, variables: Mapping[str, str] | None = None) -> Contender:
    return Contender("samovar", ["train", str(config), "--script", str(SCRIPT)], config.with_suffix(".log"), variables)


@contextmanager
def start_all(folder: Path, turn_batches: int) -> Iterator[Mapping[str, Contender]]:
    """Every contestant's process."""
    keys: dict[str, dict[str, Any]] = {
        SAMOVAR: {}, EVALUATED: {"is_evaluated": True}, BF16: {"precision": "bf16"}, COMPILED: {"compile": True},
    }  # fmt: skip
    plans = {
        name: write_config(folder / f"train_{number}.json", folder / data.TABLE, HOURS_A_TURN, **more)
        for number, (name, more) in enumerate(keys.items())
    }
    place = [str(folder), str(turn_batches)]
    contenders = {name: train(path) for name, path in plans.items()}
    contenders[bare.NAME] = Contender("benchmarks.training_peers.bare", place, folder / "bare.log", AS_SAMOVAR)
    contenders[limit.NAME] = Contender("benchmarks.training_peers.limit", place, folder / "limit.log", AS_SAMOVAR)
    contenders |= {
        name: Contender(module, arguments, folder / f"{module}.log")
        for name, module, arguments in (
            (torch_plain.ARROW, "benchmarks.training_peers.torch_plain", [*place, str(turn_batches // ROW_TURN_SHARE)]),
            (fbgemm_batched.NAME, "benchmarks.training_peers.fbgemm_batched", place),
        )
    }
    with ExitStack() as stack:
        started = {name: stack.enter_context(contender) for name, contender in contenders.items()}
        tables = started[torch_plain.ARROW]  # shared by all of torch's loaders
        fbgemm = started[fbgemm_batched.NAME]  # shared by all its dense parts
        shared = {torch_plain.DEFAULT: tables, torch_plain.WIDE: tables}
        yield {**started, **shared, fbgemm_batched.BF16: fbgemm, fbgemm_batched.COMPILED: fbgemm}


class Referee:
    """Asks for turns and keeps the answers."""

    def __init__(self, contenders: Mapping[str, Contender]) -> None:
        self._contenders = contenders
        self._turns: dict[str, list[Turn]] = {name: [] for name in contenders}

    def ask(self, name: str) -> float:
        """Seconds per thousand rows."""
        if name in GROWING:
            touch_memory(FRESH_BYTES)
        turn = self._contenders[name].ask(name)
        self._turns[name].append(turn)
        return turn.seconds * 1000 / turn.num_rows

    def losses(self) -> Mapping[str, float]:
        return {name: statistics.mean(turn.loss for turn in turns) for name, turns in self._turns.items()}


def hold_contest(contenders: Mapping[str, Contender], rounds: int, patience: Patience) -> Outcome:
    """Seconds per thousand rows. Prints losses, to show that all contestants learn the same."""
    referee = Referee(contenders)
    for name in contenders:  # loads, compiles, maps
        referee.ask(name)
    timers = {name: partial(referee.ask, name) for name in contenders}
    outcome = compete(timers, rounds, "training", patience, sorted({each.pid for each in contenders.values()}))
    print("mean losses:", ", ".join(f"{name} {loss:.4f}" for name, loss in referee.losses().items()))
    return outcome


def run_contest(folder: Path, turn_batches: int, rounds: int, patience: Patience) -> Iterator[Report]:
    turns = rounds + 1
    num_batches = (turns + READ_AHEAD_TURNS) * turn_batches
    num_row_batches = (turns + 1) * turn_batches // ROW_TURN_SHARE
    data.write_all(folder, num_batches, num_row_batches, turn_batches // HOURS_A_TURN)
    with start_all(folder, turn_batches) as contenders:
        outcome = hold_contest(contenders, rounds, patience)
    title = f"from disk, B = 1024, {rounds} interleaved rounds, {outcome.num_quiet} quiet"
    section = Section(title, outcome.seconds, 1.0, "k rows", SAMOVAR, PROMISES, outcome.is_disturbed)
    yield Report("26 embeddings of 16, 13 floats, MLP 256-64-1", [section])


def main() -> int:
    parser = CommandLine(
        __doc__,
        rounds=Size(7, 1),
        turn_batches=Size(64, 16, "minibatches of a turn"),
        patience=Size(120, 0, "seconds to wait for a quiet machine, in all"),
    )
    parser.add_argument("--memory", action="store_true", help="only this: memory over 10 million rows; takes minutes")
    options = parser.read()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as name:
        folder = Path(name)
        patience = Patience(options.patience)
        reports = (
            memory.run(folder, train)
            if options.memory
            else run_contest(folder, options.turn_batches, options.rounds, patience)
        )
        return publish(reports, options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
