"""`verify-resume`: one run straight, one killed again and again at random instants; both must end with the same bytes.

What is compared is the exactness contract (contract.py).

Running something in a forked child that may be killed at any instant.
"""

import ctypes
import importlib
import os
import shutil
import signal
import sys
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from samovar.config import merge
from samovar.errors import BadInput, SamovarError, UserError
from samovar.provenance.contract import compare, contract_of
from samovar.results import ResultDirectory, open_directory
from samovar.results.environment import capture_environment
from samovar.results.snapshot import committed_snapshots
from samovar.seeds import numpy_generator
from samovar.store import LocalStore
from samovar.training.request import Request
from samovar.training.train import train

_LOOK_SECONDS = 0.001
_MAPPED_FILES = Path("/proc/self/maps")
_PAUSE_HARD = 2  # omp_pause_hard of OpenMP 5


@dataclass(frozen=True)
class Ended:
    """How a child ended: its exit code, or minus the signal that killed it; and what it said."""

    code: int
    output: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass(frozen=True)
class Child:
    """A child at work."""

    pid: int
    log: Path
    begun: float

    def wait(self, kill_after_seconds: float | None = None) -> Ended:
        """Its end; it is killed with SIGKILL if it lives longer than that."""
        while kill_after_seconds is not None and time.monotonic() - self.begun < kill_after_seconds:
            ended = self.look()
            if ended is not None:
                return ended
            time.sleep(_LOOK_SECONDS)
        if kill_after_seconds is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return self._ended(status)

    def look(self) -> Ended | None:
        """How it ended, None while it lives."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return self._ended(status) if pid else None

    def _ended(self, status: int) -> Ended:
        output = self.log.read_text() if self.log.exists() else ""
        return Ended(os.waitstatus_to_exitcode(status), output, time.monotonic() - self.begun)


def start_child(act: Callable[[], object], log: Path) -> Child:
    """Run something in a child; what it prints goes to the log."""
    log.unlink(missing_ok=True)
    begun = time.monotonic()
    _send_openmp_threads_home()
    pid = os.fork()
    if pid == 0:
        _be_the_child(act, log)
    return Child(pid, log, begun)


def run_in_child(act: Callable[[], object], log: Path, kill_after_seconds: float | None = None) -> Ended:
    """The child does not outlive an interrupt of its parent."""
    child = start_child(act, log)
    try:
        return child.wait(kill_after_seconds)
    except KeyboardInterrupt:
        with suppress(OSError):  # it may have ended by itself
            child.wait(kill_after_seconds=0)
        raise


def _send_openmp_threads_home() -> None:
    """A fork copies no threads, and in the child torch would wait for ever for those of its OpenMP team. A team that
    was dismissed before is made anew by whoever needs it, on both sides."""
    if not _MAPPED_FILES.exists():
        return
    mapped = {line.split()[-1] for line in _MAPPED_FILES.read_text().splitlines()}
    for path in mapped:
        if Path(path).name.startswith("libgomp"):
            ctypes.CDLL(path).omp_pause_resource_all(_PAUSE_HARD)


def _be_the_child(act: Callable[[], object], log: Path) -> None:
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # it lives as long as the child
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # the same
        act()
        code = 0
    except SamovarError as error:
        print(f"error: {error}", file=sys.stderr)
        code = error.exit_code
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


LOG = "child.log"


@dataclass(frozen=True)
class VerifyReport:
    num_kills: int
    num_runs: int
    """More than one when a run ended before all kills were done."""
    num_files: int
    differences: list[str]


def verify_resume(
    request: Request, num_kills: int, folder: Path, seed: int = 0, watch: Callable[[int], None] = lambda kills: None
) -> VerifyReport:
    """All runs are made in `folder`; `watch` is told how many kills were done."""
    folder.mkdir(parents=True, exist_ok=True)
    straight = _place(request, folder / "straight")
    if straight.out.exists():
        raise BadInput(f"{straight.out}: is there already; expected a folder without earlier runs: name another")
    _load_ahead()
    try:
        return _compare_runs(request, straight, num_kills, folder, seed, watch)
    except KeyboardInterrupt:  # half a proof is none; and so it can begin again in the same folder
        for path in (straight.out, *folder.glob("killed_*"), folder / LOG):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _compare_runs(
    request: Request, straight: Request, num_kills: int, folder: Path, seed: int, watch: Callable[[int], None]
) -> VerifyReport:
    done = _run(straight, folder)
    if done.code != 0:
        raise _failed("the straight run", done)
    expected = contract_of(straight.out)
    pace = Pace(done.seconds, _count_uris(straight.out), num_kills, numpy_generator(seed, "verify-resume"))
    kills, runs, differences = 0, 0, []
    while kills < num_kills:
        runs += 1
        killed = _place(request, folder / f"killed_{runs}")
        kills = _kill_often(killed, folder, pace, kills, num_kills, watch)
        found = contract_of(killed.out)
        differences += [f"{killed.out}: {line}" for line in compare(expected, found)]
    return VerifyReport(kills, runs, len(expected), differences)


def _load_ahead() -> None:
    """What every child would load again, for seconds: the compiler that optimizers ask for, and package versions."""
    importlib.import_module("torch._dynamo")
    capture_environment()


def _place(request: Request, out: Path) -> Request:
    """The same run elsewhere, with a snapshot after every URI: how often changes nothing, and kills cost less."""
    return replace(request, out=out, tree=merge(request.tree, {"snapshotter": {"frequency": 0.0}, "progress": False}))


def _run(request: Request, folder: Path, kill_after_seconds: float | None = None) -> Ended:
    return run_in_child(lambda: train(request), folder / LOG, kill_after_seconds)


def _kill_often(
    request: Request, folder: Path, pace: "Pace", kills: int, num_kills: int, watch: Callable[[int], None]
) -> int:
    """One run to its end, killed as often as is left to do; gives how many kills there were in all."""
    pace.start()
    while kills < num_kills:
        ended = _run(request, folder, pace.draw())
        if ended.code == 0:
            pace.shorten()
            return kills
        if not ended.was_killed:
            raise _failed(f"the run after {kills} kills", ended)
        num_snapshots = _count_snapshots(request.out)
        if num_snapshots > 0:  # before the first one there is nothing to go on from: it proves nothing
            kills += 1
            watch(kills)
        pace.learn(num_snapshots)
    ended = _run(request, folder)
    if ended.code != 0:
        raise _failed(f"the last run, after {kills} kills", ended)
    return kills


class Pace:
    """How long a child may live: so long that the run gets on, and so short that it does not end before all kills."""

    def __init__(self, seconds: float, num_uris: int, num_kills: int, chance: np.random.Generator) -> None:
        self._longest = seconds / 4
        self._step = num_uris / (num_kills + 1)
        self._chance = chance
        self._kills, self._reached = 0, 0

    def start(self) -> None:
        self._kills, self._reached = 0, 0

    def draw(self) -> float:
        return float(self._chance.uniform(0, self._longest))

    def learn(self, num_snapshots: int) -> None:
        self._kills += 1
        is_late = num_snapshots < self._step * self._kills
        self._longest *= 1.15 if is_late else 0.87

    def shorten(self) -> None:
        """It ended before it was killed. Else early kills alone would move the pace, away from the run for ever."""
        self._longest *= 0.87


def _count_snapshots(out: Path) -> int:
    names = committed_snapshots(ResultDirectory(LocalStore(out)).store)
    return names[0].number if names else 0


def _count_uris(out: Path) -> int:
    finished = open_directory(out).store.attributes().values["finished"]
    return int(finished["position"]["next_uri"])


def _failed(what: str, ended: Ended) -> SamovarError:
    error = UserError if ended.code == 2 else SamovarError
    return error(f"verify-resume: {what} ended with exit code {ended.code}; expected 0. It said:\n{ended.output}")
