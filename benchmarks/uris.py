"""What a URI costs beside its steps: `samovar train` on sparse hours, with evaluation of the next hour, logs and a
progress bar, against the same steps in a bare loop over minibatches in memory.

Both run on one thread, and processor time counts, that of background threads included.
"""

import statistics
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from benchmarks.contest.clicks import make_clicks
from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.contest.rounds import Seconds, interleave
from benchmarks.training import train, write_config
from benchmarks.training_peers import bare, data
from benchmarks.training_peers.process import Contender

ROWS_PER_HOUR = 100
NUM_THREADS = 1
EVALUATED = "Samovar, next hour evaluated"
PLAIN = "Samovar"
BARE_EVALUATED = "bare steps in memory, next minibatch predicted"
BARE = "bare steps in memory"
LEAST = 0.3
WITH_BAR = {"FORCE_COLOR": "1"}  # rich draws as on a terminal
READ_AHEAD_TURNS = 2


def start(folder: Path, hours_per_turn: int) -> dict[str, Contender]:
    contenders: dict[str, Contender] = {}
    for name, is_evaluated in ((PLAIN, False), (EVALUATED, True)):
        config = folder / f"train_{len(contenders)}.json"
        write_config(config, folder / data.TABLE, hours_per_turn, is_evaluated, num_threads=NUM_THREADS)
        contenders[name] = train(config, WITH_BAR)
    for name, more in ((BARE, []), (BARE_EVALUATED, [bare.PREDICT])):
        arguments = [str(folder), str(hours_per_turn), str(NUM_THREADS), *more]
        contenders[name] = Contender("benchmarks.training_peers.bare", arguments, folder / f"bare_{len(more)}.log")
    return contenders


def ask(contenders: Mapping[str, Contender], name: str) -> float:
    """Processor seconds per URI."""
    turn = contenders[name].ask(name)
    return turn.cpu_seconds * ROWS_PER_HOUR / turn.num_rows


def overhead(seconds: Seconds, name: str, limit: str) -> str:
    extra = [own - least for own, least in zip(seconds[name], seconds[limit], strict=True)]
    return f"overhead of a URI {1000 * statistics.median(extra):.2f} ms"


def run(folder: Path, hours_per_turn: int, rounds: int) -> Iterator[Report]:
    num_hours = (rounds + 1 + READ_AHEAD_TURNS) * hours_per_turn
    data.write_hours(folder / data.TABLE, make_clicks(num_hours * ROWS_PER_HOUR), 1, ROWS_PER_HOUR)
    with ExitStack() as stack:
        started = {name: stack.enter_context(each) for name, each in start(folder, hours_per_turn).items()}
        for name in started:  # loads, compiles, maps
            ask(started, name)
        seconds = interleave({name: partial(ask, started, name) for name in started}, rounds, "hours")
    pairs = {PLAIN: BARE, EVALUATED: BARE_EVALUATED}
    promises = [Promise(name, limit, LEAST, overhead(seconds, name, limit)) for name, limit in pairs.items()]
    title = f"an hour of {ROWS_PER_HOUR} rows, processor time, {rounds} interleaved rounds"
    yield Report("online hours with few rows", [Section(title, seconds, 1.0, "URIs", BARE_EVALUATED, promises)])


def main() -> int:
    options = CommandLine(__doc__, rounds=Size(5, 1), hours=Size(200, 20, "hours of a turn")).read()
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as name:
        return publish(run(Path(name), options.hours, options.rounds), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
