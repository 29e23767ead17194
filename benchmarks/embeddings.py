"""An embedding step: Samovar's hash tables against FBGEMM, torch and TorchRec, forward + backward + update in one run.

Everybody gets the same batches in turns, and gives one tensor of [B, 26 * 16] whose gradient is given: FBGEMM, TorchRec
and Samovar (`concat`) hand it out so, for torch a `torch.cat` is part of the step. Two threads each. Then what Samovar
needs for itself: growth, sweep, dump and load. The peers lie in build/peers, where `make bench` puts them.
"""

import argparse
import gc
import logging
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from benchmarks.contest.quiet import Patience, Watch
from benchmarks.contest.report import Bar, Section, show
from benchmarks.contest.rounds import Seconds, interleave, paired_ratio
from benchmarks.embedding_peers import fbgemm, hash_embedding, torch_sparse, upkeep, zch
from benchmarks.embedding_peers.base import DIM, NUM_IDS, NUM_TABLES, Batch, Contestant, Setting, draw_batches
from benchmarks.embedding_peers.hash_embedding import DISTINCT, PLAIN, Optimizer, make_trainee

from samovar.embeddings import HashAdagrad, HashAdam, HashRowwiseAdagrad, HashSGD

JUDGED_BATCH = 1024
SETTINGS = tuple(Setting(batch_size, is_bag) for batch_size in (JUDGED_BATCH, 4096) for is_bag in (False, True))
ROWS_A_TURN = 8192
FEW_IDS = 100_000
LEAST_QUIET = 3


@dataclass(frozen=True)
class Turns:
    """How long each comparison goes on."""

    rounds: int
    patience: Patience
    steps: int | None = None
    """Of a turn; else as many as make ROWS_A_TURN."""

    def steps_of(self, setting: Setting) -> int:
        return self.steps or ROWS_A_TURN // setting.batch_size


@dataclass(frozen=True)
class Promise:
    """So many times a peer's speed, at JUDGED_BATCH."""

    contestant: str
    peer: str
    least: float
    is_full: bool = True
    is_bag: bool | None = None
    """None: with single ids and with bags."""

    def judge(self, setting: Setting, is_full: bool, outcome: "Outcome") -> Iterator[Bar]:
        is_meant = setting.batch_size == JUDGED_BATCH and self.is_bag in (None, setting.is_bag)
        if is_meant and is_full == self.is_full:
            ratio = paired_ratio(outcome.seconds, self.contestant, self.peer)
            promise = f"{_state(is_full)}, {setting}: {self.contestant} at {self.least:g} of {self.peer}"
            is_valid = outcome.num_quiet >= LEAST_QUIET
            found = f"{ratio:.2f}" if is_valid else f"{ratio:.2f}, worthless: others used the machine"
            yield Bar(promise, found, is_valid and ratio >= self.least)


@dataclass(frozen=True)
class Match:
    """Contestants with the same optimizer, from empty tables and with all ids in each."""

    optimizer: Optimizer
    own: Sequence[str]
    make_peer: Callable[[bool], Contestant]
    promises: Sequence[Promise] = ()
    is_peer_dynamic: bool = False
    """Its tables fill too; else they are as full as they get, and serve for all."""


def _static(make: Callable[[str], Contestant], name: str) -> Callable[[bool], Contestant]:
    return lambda is_full: make(name)


MATCHES = {
    "Adagrad against FBGEMM": Match(
        HashAdagrad,
        (PLAIN, DISTINCT),
        _static(fbgemm.make_contestant, fbgemm.ADAGRAD),
        (
            Promise(PLAIN, fbgemm.ADAGRAD, 4.0, is_bag=False),
            Promise(PLAIN, fbgemm.ADAGRAD, 3.5, is_bag=True),
            Promise(PLAIN, fbgemm.ADAGRAD, 5.0, is_full=False),
            Promise(DISTINCT, PLAIN, 1.3),
        ),
    ),
    "Adagrad against torch": Match(
        HashAdagrad,
        (PLAIN, DISTINCT),
        _static(torch_sparse.make_contestant, torch_sparse.ADAGRAD),
        (Promise(PLAIN, torch_sparse.ADAGRAD, 8.0),),
    ),
    "Adam against torch": Match(
        HashAdam,
        (PLAIN,),
        _static(torch_sparse.make_contestant, torch_sparse.ADAM),
        (Promise(PLAIN, torch_sparse.ADAM, 8.0),),
    ),
    "row-wise Adagrad against FBGEMM": Match(
        HashRowwiseAdagrad, (PLAIN, DISTINCT), _static(fbgemm.make_contestant, fbgemm.ROWWISE)
    ),
    "SGD against FBGEMM": Match(HashSGD, (PLAIN, DISTINCT), _static(fbgemm.make_contestant, fbgemm.SGD)),
}
ZCH_MATCH = Match(HashAdagrad, (PLAIN,), zch.make_contestant, is_peer_dynamic=True)


# Turns


@dataclass(frozen=True)
class Outcome:
    seconds: Seconds
    """Of the rounds in which nobody else used the machine; of all, where those are too few."""
    num_quiet: int


def compete(contestants: Sequence[Contestant], setting: Setting, turns: Turns, what: str) -> Outcome:
    steps = turns.steps_of(setting)
    gradient = torch.randn(setting.batch_size, NUM_TABLES * DIM, generator=torch.Generator().manual_seed(1))
    timers = {}
    for contestant in contestants:
        batches = draw_batches(setting, turns.rounds * steps, contestant.num_ids, contestant.stream)
        timers[contestant.name] = partial(time_turn, contestant, _cut(contestant, batches, steps), gradient)
    gc.collect()
    watch = Watch(len(timers), turns.patience)
    seconds = interleave({name: partial(watch.follow, timer) for name, timer in timers.items()}, turns.rounds, what)
    quiet = watch.quiet_rounds()
    chosen = quiet if len(quiet) >= LEAST_QUIET else range(turns.rounds)
    return Outcome({name: [times[number] for number in chosen] for name, times in seconds.items()}, len(quiet))


def _cut(contestant: Contestant, batches: Sequence[Batch], steps: int) -> Iterator[Sequence[object]]:
    """The batches of each turn, made ready when the turn comes."""
    for first in range(0, len(batches), steps):
        yield [contestant.prepare(batch) for batch in batches[first : first + steps]]


def time_turn(contestant: Contestant, turns: Iterator[Sequence[object]], gradient: torch.Tensor) -> float:
    inputs = next(turns)
    torch.set_num_threads(contestant.num_threads)
    start = time.perf_counter()
    for batch in inputs:
        contestant.step(batch, gradient)
    return time.perf_counter() - start


def make_section(title: str, setting: Setting, turns: Turns, outcome: Outcome, peer: str) -> Section:
    thousands = turns.steps_of(setting) * setting.batch_size / 1000
    title = f"{title}, {setting}; {outcome.num_quiet} quiet"
    return Section(title, outcome.seconds, thousands, "k rows", peer)


# Comparisons: each builds its contestants, and lets go of them at its end


def run_match(title: str, match: Match, turns: Turns) -> bool:
    sections, bars = [], []
    peer: Contestant | None = None
    for is_full in (False, True):
        contestants: list[Contestant] = []
        for setting in SETTINGS:
            if not (is_full and contestants):  # full tables stay full; empty ones do not stay empty
                contestants.clear()
                peer = None if match.is_peer_dynamic else peer
                gc.collect()
                peer = peer or match.make_peer(is_full)
                own = [hash_embedding.make_contestant(name, match.optimizer, is_full) for name in match.own]
                contestants = [*own, peer]
            outcome = compete(contestants, setting, turns, f"{title}, {_state(is_full)}, {setting}")
            sections.append(make_section(_state(is_full), setting, turns, outcome, contestants[-1].name))
            bars += [bar for promise in match.promises for bar in promise.judge(setting, is_full, outcome)]
    return show(f"{title}; full is {NUM_IDS:,} ids a table; {turns.rounds} interleaved rounds, medians", sections, bars)


def _state(is_full: bool) -> str:
    return "full tables" if is_full else "from empty"


def run_alone(title: str, turns: Turns) -> bool:
    """The same tables with one thread and with two; and tables of a tenth of the rows."""
    many, few = (make_trainee(HashAdagrad, num_ids) for num_ids in (NUM_IDS, FEW_IDS))
    two, one, joined, small = "2 threads", "1 thread", "2 threads, torch.cat", f"2 threads, {FEW_IDS:,} ids a table"
    prepare = hash_embedding.prepare_plain
    contestants = [
        Contestant(two, prepare, many.step),
        Contestant(one, prepare, many.step, num_threads=1, stream=1),
        Contestant(joined, prepare, many.step_joined, stream=2),
        Contestant(small, prepare, few.step, num_ids=FEW_IDS),
    ]
    promises = (Promise(two, one, 1.6), Promise(two, small, 0.5))
    sections, bars = [], []
    for setting in SETTINGS:
        outcome = compete(contestants, setting, turns, f"{title}, {setting}")
        sections.append(make_section(_state(True), setting, turns, outcome, two))
        bars += [bar for promise in promises for bar in promise.judge(setting, True, outcome)]
    return show(f"{title}, Adagrad; {turns.rounds} interleaved rounds, medians", sections, bars)


def plan(rounds: int, patience: Patience, is_quick: bool, folder: Path) -> Mapping[str, Callable[[], bool]]:
    """Every comparison by its title."""
    turns, few_turns = Turns(rounds, patience), Turns(1 if is_quick else 3, patience, zch.EVICTION_INTERVAL)
    upkeep_rounds = 1 if is_quick else 5
    acts: dict[str, Callable[[], bool]] = {
        title: partial(run_match, title, match, turns) for title, match in MATCHES.items()
    }
    acts["Samovar alone"] = partial(run_alone, "Samovar alone", turns)
    acts["growth"] = upkeep.run_growth
    acts["sweep"] = partial(upkeep.run_sweep, upkeep_rounds)
    acts["dump and load"] = partial(upkeep.run_disk, upkeep_rounds, folder)
    acts["Adagrad against TorchRec"] = partial(run_match, "Adagrad against TorchRec", ZCH_MATCH, few_turns)
    return acts


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dir", type=Path, help="where the dump goes for the time of the run; else a temporary folder")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--patience", type=float, default=300.0, help="seconds to wait for a quiet machine, in all")
    parser.add_argument("--quick", action="store_true", help="a third of the rounds, or fewer")
    parser.add_argument("--only", default="", help="comparisons with this in their title")
    options = parser.parse_args()
    warnings.filterwarnings("ignore", module="torchrec|fbgemm_gpu|torch.jit")
    logging.disable(logging.WARNING)  # of torch about TorchRec, nothing of ours
    rounds = max(1, options.rounds // 3) if options.quick else options.rounds
    patience = Patience(options.patience)
    are_kept = []
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        for title, act in plan(rounds, patience, options.quick, Path(folder)).items():
            if options.only in title:
                are_kept.append(act())
                gc.collect()
    if not are_kept:
        parser.error(f"--only {options.only}: no title has it")
    return 0 if all(are_kept) else 1


if __name__ == "__main__":
    sys.exit(main())
