"""An embedding step (forward, backward, update): Samovar's hash tables against FBGEMM, torch and TorchRec.

All contestants get the same batches in turns and produce one tensor of [B, 26 * 16], whose gradient is given. FBGEMM,
TorchRec and Samovar (`concat`) return it directly; for torch a `torch.cat` is part of the step. Two threads each. Then
Samovar alone: growth, sweep, dump and load. `make bench` installs the peers into build/peers.
"""

import gc
import logging
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from benchmarks.contest.command_line import CommandLine, Size
from benchmarks.contest.quiet import Patience, compete
from benchmarks.contest.report import Promise, Report, Section
from benchmarks.contest.result import publish
from benchmarks.embedding_peers import fbgemm, hash_embedding, torch_sparse, upkeep, zch
from benchmarks.embedding_peers.base import NUM_IDS, Contestant, Setting, make_timer
from benchmarks.embedding_peers.hash_embedding import DISTINCT, PLAIN, Optimizer, make_trainee

from samovar.embeddings import HashAdagrad, HashAdam, HashRowwiseAdagrad, HashSGD

JUDGED_BATCH = 1024
SETTINGS = tuple(Setting(batch_size, is_bag) for batch_size in (JUDGED_BATCH, 4096) for is_bag in (False, True))
ROWS_A_TURN = 16384
FEW_IDS_SHARE = 10
MOST_ZCH_ROUNDS = 2  # it is slow


@dataclass(frozen=True)
class Turns:
    """How long each comparison runs."""

    rounds: int
    patience: Patience
    num_ids: int = NUM_IDS
    """In each full table."""
    steps: int | None = None
    """Per turn; by default as many as make ROWS_A_TURN."""

    def steps_of(self, setting: Setting) -> int:
        return self.steps or ROWS_A_TURN // setting.batch_size


@dataclass(frozen=True)
class Claim:
    """A promise for JUDGED_BATCH."""

    promise: Promise
    is_full: bool = True
    is_bag: bool | None = None
    """None: for single ids and for bags."""

    def is_about(self, setting: Setting, is_full: bool) -> bool:
        is_meant = setting.batch_size == JUDGED_BATCH and self.is_bag in (None, setting.is_bag)
        return is_meant and is_full == self.is_full


@dataclass(frozen=True)
class Match:
    """Contestants with the same optimizer, starting from empty tables and with all ids in each."""

    optimizer: Optimizer
    own: Sequence[str]
    make_peer: Callable[[bool, int], Contestant]
    """Takes whether tables are full, and the number of ids."""
    claims: Sequence[Claim] = ()
    is_peer_dynamic: bool = False
    """Its tables fill up as well; otherwise one set of tables serves all comparisons."""

    @property
    def settings(self) -> Sequence[Setting]:
        """Larger minibatches only where something is promised: everything would take minutes."""
        return SETTINGS if self.claims else [each for each in SETTINGS if each.batch_size == JUDGED_BATCH]


def _static(make: Callable[[str, int], Contestant], name: str) -> Callable[[bool, int], Contestant]:
    return lambda is_full, num_ids: make(name, num_ids)


MATCHES = {
    "Adagrad against FBGEMM": Match(
        HashAdagrad,
        (PLAIN, DISTINCT),
        _static(fbgemm.make_contestant, fbgemm.ADAGRAD),
        (
            Claim(Promise(PLAIN, fbgemm.ADAGRAD, 4.0), is_bag=False),
            Claim(Promise(PLAIN, fbgemm.ADAGRAD, 3.5), is_bag=True),
            Claim(Promise(PLAIN, fbgemm.ADAGRAD, 2.5), is_full=False),
        ),
    ),
    "Adagrad against torch": Match(
        HashAdagrad,
        (PLAIN, DISTINCT),
        _static(torch_sparse.make_contestant, torch_sparse.ADAGRAD),
        (Claim(Promise(PLAIN, torch_sparse.ADAGRAD, 6.0)),),
    ),
    "Adam against torch": Match(
        HashAdam,
        (PLAIN,),
        _static(torch_sparse.make_contestant, torch_sparse.ADAM),
        (Claim(Promise(PLAIN, torch_sparse.ADAM, 6.0)),),
    ),
    "row-wise Adagrad against FBGEMM": Match(
        HashRowwiseAdagrad, (PLAIN, DISTINCT), _static(fbgemm.make_contestant, fbgemm.ROWWISE)
    ),
    "SGD against FBGEMM": Match(HashSGD, (PLAIN, DISTINCT), _static(fbgemm.make_contestant, fbgemm.SGD)),
}
ZCH_MATCH = Match(HashAdagrad, (PLAIN,), zch.make_contestant, is_peer_dynamic=True)


# Comparisons: each builds its contestants and releases them at its end


def compare(
    title: str, contestants: Sequence[Contestant], setting: Setting, turns: Turns, promises: Sequence[Promise]
) -> Section:
    """The last contestant is the peer that the others are compared with."""
    steps = turns.steps_of(setting)
    timers = {each.name: make_timer(each, setting, turns.rounds, steps) for each in contestants}
    gc.collect()
    outcome = compete(timers, turns.rounds, f"{title}, {setting}", turns.patience)
    return Section(
        title=f"{title}, {setting}; {outcome.num_quiet} quiet",
        seconds=outcome.seconds,
        amount=steps * setting.batch_size / 1000,
        unit="k rows",
        peer=contestants[-1].name,
        promises=promises,
        is_disturbed=outcome.is_disturbed,
    )


def run_match(title: str, match: Match, turns: Turns) -> Report:
    sections = []
    peer: Contestant | None = None
    for is_full in (False, True):
        contestants: list[Contestant] = []
        for setting in match.settings:
            if not (is_full and contestants):  # full tables stay full; empty ones do not stay empty
                contestants.clear()
                peer = None if match.is_peer_dynamic else peer
                gc.collect()
                peer = peer or match.make_peer(is_full, turns.num_ids)
                make = partial(hash_embedding.make_contestant, optimizer=match.optimizer, is_full=is_full)
                contestants = [*(make(name, num_ids=turns.num_ids) for name in match.own), peer]
            promises = [claim.promise for claim in match.claims if claim.is_about(setting, is_full)]
            sections.append(compare(_state(is_full), contestants, setting, turns, promises))
    return Report(f"{title}; full is {turns.num_ids:,} ids per table; {turns.rounds} interleaved rounds", sections)


def _state(is_full: bool) -> str:
    return "full tables" if is_full else "from empty"


def run_alone(title: str, turns: Turns) -> Report:
    """The same tables with one and with two threads, and tables with a tenth of the ids."""
    num_few = turns.num_ids // FEW_IDS_SHARE
    many, few = (make_trainee(HashAdagrad, num_ids) for num_ids in (turns.num_ids, num_few))
    two, one, joined, small = "2 threads", "1 thread", "2 threads, torch.cat", f"2 threads, {num_few:,} ids per table"
    prepare = hash_embedding.prepare_plain
    contestants = [
        Contestant(one, prepare, many.step, turns.num_ids, num_threads=1, stream=1),
        Contestant(joined, prepare, many.step_joined, turns.num_ids, stream=2),
        Contestant(small, prepare, few.step, num_few),
        Contestant(two, prepare, many.step, turns.num_ids),
    ]
    claims = (Claim(Promise(two, one, 1.4)), Claim(Promise(two, small, 0.5)))
    sections = []
    for setting in SETTINGS:
        promises = [claim.promise for claim in claims if claim.is_about(setting, is_full=True)]
        sections.append(compare(_state(True), contestants, setting, turns, promises))
    return Report(f"{title}, Adagrad; {turns.rounds} interleaved rounds, medians", sections)


def plan(turns: Turns, upkeep_rounds: int, folder: Path) -> Mapping[str, Callable[[], Report]]:
    """Every comparison by its title."""
    acts: dict[str, Callable[[], Report]] = {
        title: partial(run_match, title, match, turns) for title, match in MATCHES.items()
    }
    acts["Samovar alone"] = partial(run_alone, "Samovar alone", turns)
    acts["growth"] = partial(upkeep.run_growth, turns.num_ids, upkeep_rounds)
    acts["sweep"] = partial(upkeep.run_sweep, turns.num_ids, upkeep_rounds)
    acts["dump and load"] = partial(upkeep.run_disk, turns.num_ids, upkeep_rounds, folder)
    few_turns = replace(turns, rounds=min(turns.rounds, MOST_ZCH_ROUNDS), steps=zch.EVICTION_INTERVAL)
    acts["Adagrad against TorchRec"] = partial(run_match, "Adagrad against TorchRec", ZCH_MATCH, few_turns)
    return acts


def run(acts: Iterable[Callable[[], Report]]) -> Iterator[Report]:
    for act in acts:
        yield act()
        gc.collect()  # gigabytes of tables


def main() -> int:
    parser = CommandLine(
        __doc__,
        rounds=Size(5, 1),
        upkeep_rounds=Size(3, 1, "of sweep, dump and load"),
        ids=Size(NUM_IDS, 10_000, "in each full table"),
        patience=Size(120, 0, "seconds to wait for a quiet machine, in all"),
    )
    parser.add_argument("--only", default="", help="comparisons with this in their title")
    options = parser.read()
    warnings.filterwarnings("ignore", module="torchrec|fbgemm_gpu|torch.jit|torch.optim")
    logging.disable(logging.WARNING)  # from torch about TorchRec, not ours
    turns = Turns(options.rounds, Patience(options.patience), options.ids)
    with tempfile.TemporaryDirectory(prefix="samovar-bench-", dir=options.dir) as folder:
        acts = plan(turns, options.upkeep_rounds, Path(folder))
        chosen = [act for title, act in acts.items() if options.only in title]
        if not chosen:
            parser.error(f"--only {options.only}: no title has it; expected a part of {', '.join(acts)}")
        return publish(run(chosen), options.quick, options.json)


if __name__ == "__main__":
    sys.exit(main())
