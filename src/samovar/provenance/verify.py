"""`verify-resume`: one run straight through, others killed at random instants; all must end with the same bytes.

straight/   fork ─▶ train ────────────────────────────────────────▶ finished ─┐
killed_1/   fork ─▶ train ─ SIGKILL ─ fork ─▶ resume ─ SIGKILL … ─▶ finished ─┴─▶ compare (contract.py)

Each attempt is a forked child (below), which shares the imports of this process and may be killed at any instant.
"""

import ctypes
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from samovar.config import merge
from samovar.config.places import Place
from samovar.errors import BadInput, SamovarError, UserError
from samovar.provenance.contract import compare, contract_of
from samovar.results import ResultDirectory, open_directory
from samovar.results.environment import capture_environment
from samovar.results.snapshot import committed_snapshots
from samovar.seeds import numpy_generator
from samovar.store import open_store
from samovar.store.disk import store_error
from samovar.training.request import Request
from samovar.training.session import run_training

LOG = "child.log"
_POLL_SECONDS = 0.001
_MAPPED_FILES = Path("/proc/self/maps")
_PAUSE_HARD = 2  # omp_pause_hard of OpenMP 5


@dataclass(frozen=True)
class VerifyReport:
    """How runs that were killed compare with one that was not.

    Attributes:
        num_kills: How many kills there were.
        num_runs: In how many runs; more than one if a run finished before all kills were done.
        num_files: How many files were compared.
        differences: One line per difference. Empty: equal to the last bit.

    Example:
        >>> from samovar.provenance import verify_resume
        >>> from samovar.training import make_request
        >>> verify_resume(make_request("click.json", "model.py", out="models/verified"), num_kills=1).differences
        []
    """

    num_kills: int
    num_runs: int
    num_files: int
    differences: list[str]


def verify_resume(
    request: Request,
    num_kills: int = 10,
    folder: Path | str | None = None,
    *,
    seed: int = 0,
    report: Callable[[int], None] = lambda kills: None,
) -> VerifyReport:
    """Train straight through and with kills, and compare the results.

    Each run is a forked child, so call it before you use torch: a fork copies no threads.

    Args:
        request: Config and script, as `samovar.training.make_request` reads them; its directory is not used.
        num_kills: How many times to kill.
        folder: Where to make the runs. None: in a temporary folder.
        seed: Decides the instants of the kills.
        report: Called with the number of kills after each.

    Returns:
        How the runs compare.

    Raises:
        BadInput: The folder has runs already.
        SamovarError: A run failed for another reason than a kill.

    Example:
        >>> from samovar.training import make_request
        >>> verify_resume(make_request("click.json", "model.py"), num_kills=2).differences
        []
    """
    if folder is not None:
        return _verify(request, num_kills, Path(folder), seed, report)
    with tempfile.TemporaryDirectory(prefix="samovar-verify-") as temporary:
        return _verify(request, num_kills, Path(temporary), seed, report)


def _verify(request: Request, num_kills: int, folder: Path, seed: int, report: Callable[[int], None]) -> VerifyReport:
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise store_error(error, "create", folder, folder) from error
    straight = _place(request, folder / "straight")
    if (folder / "straight").exists():
        raise BadInput(f"{straight.out}: already exists. Choose a folder without earlier runs")
    _preload()
    try:
        return _compare_runs(request, straight, num_kills, folder, seed, report)
    except KeyboardInterrupt:  # a partial proof is worth nothing; remove it so that the folder can be used again
        for path in (folder / "straight", *folder.glob("killed_*"), folder / LOG):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
        raise


def _compare_runs(
    request: Request, straight: Request, num_kills: int, folder: Path, seed: int, report: Callable[[int], None]
) -> VerifyReport:
    done = _run(straight, folder)
    if done.code != 0:
        raise _make_error("the straight run", done)
    expected = contract_of(straight.out)
    delay = KillDelay(done.seconds, _count_uris(straight.out), num_kills, numpy_generator(seed, "verify-resume"))
    kills, runs, differences = 0, 0, []
    while kills < num_kills:
        runs += 1
        killed = _place(request, folder / f"killed_{runs}")
        kills = _run_with_kills(killed, folder, delay, kills, num_kills, report)
        found = contract_of(killed.out)
        differences += [f"{killed.out}: {line}" for line in compare(expected, found)]
    return VerifyReport(kills, runs, len(expected), differences)


def _preload() -> None:
    """Load what every child would spend seconds on: torch's compiler, which optimizers import, and package versions."""
    importlib.import_module("torch._dynamo")
    capture_environment()


def _place(request: Request, out: Path) -> Request:
    """The same run elsewhere, with a snapshot after every URI: this changes no bit, and each kill costs less."""
    return replace(request, out=out, tree=merge(request.tree, {"snapshotter": {"frequency": 0.0}, "progress": False}))


def _run(request: Request, folder: Path, kill_after_seconds: float | None = None) -> "ChildExit":
    return run_in_child(lambda: run_training(request), folder / LOG, kill_after_seconds)


def _run_with_kills(
    request: Request, folder: Path, delay: "KillDelay", kills: int, num_kills: int, report: Callable[[int], None]
) -> int:
    """Train one directory to its end, with as many kills as are left. Returns the number of kills in all runs."""
    delay.start_run()
    while kills < num_kills:
        done = _run(request, folder, delay.draw_seconds())
        if done.code == 0:
            delay.shorten()
            return kills
        if not done.was_killed:
            raise _make_error(f"the run after {kills} kills", done)
        num_snapshots = _count_snapshots(request.out)
        if num_snapshots > 0:  # before the first snapshot there is nothing to resume, so the kill proves nothing
            kills += 1
            report(kills)
        delay.adjust(num_snapshots)
    done = _run(request, folder)
    if done.code != 0:
        raise _make_error(f"the last run, after {kills} kills", done)
    return kills


def _count_snapshots(out: Place) -> int:
    names = committed_snapshots(ResultDirectory(open_store(out)).store)
    return names[0].number if names else 0


def _count_uris(out: Place) -> int:
    finished = open_directory(out).store.attributes().values["finished"]
    return int(finished["position"]["next_uri"])


def _make_error(what: str, done: "ChildExit") -> SamovarError:
    error = UserError if done.code == 2 else SamovarError
    return error(f"verify-resume: {what} failed with exit code {done.code}:\n{done.output}")


class KillDelay:
    """How long a child may live: long enough that the run advances, short enough that it does not end too early."""

    def __init__(self, seconds: float, num_uris: int, num_kills: int, generator: np.random.Generator) -> None:
        self._max_seconds = seconds / 4
        self._uris_per_kill = num_uris / (num_kills + 1)
        self._generator = generator
        self._num_kills = 0

    def start_run(self) -> None:
        self._num_kills = 0

    def draw_seconds(self) -> float:
        return float(self._generator.uniform(0, self._max_seconds))

    def adjust(self, num_snapshots: int) -> None:
        """After a kill: give more time to a run that is behind, less to one that is ahead."""
        self._num_kills += 1
        is_behind = num_snapshots < self._uris_per_kill * self._num_kills
        self._max_seconds *= 1.15 if is_behind else 0.87

    def shorten(self) -> None:
        """After a run that ended before it was killed. Without this, early kills alone would keep raising the limit."""
        self._max_seconds *= 0.87


# A forked child that may be killed at any instant


@dataclass(frozen=True)
class ChildExit:
    """How a child ended."""

    code: int
    """Its exit code, or minus the signal that killed it."""
    output: str
    seconds: float

    @property
    def was_killed(self) -> bool:
        return self.code == -signal.SIGKILL


@dataclass(frozen=True)
class Child:
    """A running child."""

    pid: int
    log: Path
    started: float

    def wait(self, kill_after_seconds: float | None = None) -> ChildExit:
        """Wait for its end; send SIGKILL if it lives longer than that."""
        while kill_after_seconds is not None and time.monotonic() - self.started < kill_after_seconds:
            done = self.poll()
            if done is not None:
                return done
            time.sleep(_POLL_SECONDS)
        if kill_after_seconds is not None:
            os.kill(self.pid, signal.SIGKILL)
        _, status = os.waitpid(self.pid, 0)
        return self._exit(status)

    def poll(self) -> ChildExit | None:
        """How it ended, or None while it runs."""
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        return self._exit(status) if pid else None

    def _exit(self, status: int) -> ChildExit:
        output = self.log.read_text() if self.log.exists() else ""
        return ChildExit(os.waitstatus_to_exitcode(status), output, time.monotonic() - self.started)


def start_child(work: Callable[[], object], log: Path) -> Child:
    """Call a function in a forked child. Its output goes to the log."""
    log.unlink(missing_ok=True)
    started = time.monotonic()
    _stop_openmp_threads()
    pid = os.fork()
    if pid == 0:
        _run_child(work, log)
    return Child(pid, log, started)


def run_in_child(work: Callable[[], object], log: Path, kill_after_seconds: float | None = None) -> ChildExit:
    """Call a function in a forked child and wait for its end. An interrupt of this process kills the child too."""
    child = start_child(work, log)
    try:
        return child.wait(kill_after_seconds)
    except KeyboardInterrupt:
        with suppress(OSError):  # it may have ended by itself
            child.wait(kill_after_seconds=0)
        raise


def _stop_openmp_threads() -> None:
    """A fork copies no threads, so torch in the child would wait indefinitely for those of its OpenMP team. A stopped
    team starts again when it is needed, in both processes."""
    if not _MAPPED_FILES.exists():
        return
    mapped = {line.split()[-1] for line in _MAPPED_FILES.read_text().splitlines()}
    for path in mapped:
        if Path(path).name.startswith("libgomp"):
            ctypes.CDLL(path).omp_pause_resource_all(_PAUSE_HARD)


def _run_child(work: Callable[[], object], log: Path) -> None:
    """The whole life of the child: never returns."""
    code = 1
    try:
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115  # stays open until the child ends
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115  # the same
        work()
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
