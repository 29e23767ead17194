"""Brew, train and predict while one system call fails, then without: the errors are clear, and the results exact.

    LD_PRELOAD=shim.so python -m tests.faults.run FOLDER '[{"call": "fsync", "number": 3, "error": "EIO"}, …]'
    LD_PRELOAD=shim.so python -m tests.faults.run FOLDER --seconds 900 --seed 0     faults by chance

Everything is loaded once; each case is a forked child that runs the real commands over the real disk. Prints one JSON
document: the number of cases, and of those in which a command failed; the calls of a run without faults; the problems.
"""

import argparse
import contextlib
import ctypes
import errno
import io
import json
import os
import random
import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.cli.mistakes import COLUMNS, SCRIPT, make_log
from tests.orphans import end_with_parent

CALLS = ("write", "fsync", "rename", "link", "mkdir", "create", "remove", "read", "open")
MODES = ("once", "from then on", "short", "often")
ERRORS = {
    "write": ("ENOSPC", "EIO", "EINTR"),
    "fsync": ("EIO", "EINTR"),
    "rename": ("EIO", "ENOSPC"),
    "link": ("EIO", "ENOSPC"),
    "mkdir": ("ENOSPC", "EROFS"),
    "create": ("ENOSPC", "EMFILE", "EINTR"),
    "remove": ("EIO",),
    "read": ("EIO", "EINTR"),
    "open": ("EMFILE", "EINTR"),
}
RESULTS = ("clicks", "click", "scores")
COMMANDS = (
    "brew ../recipe.json --out clicks",
    "train ../online.json --script ../model.py --out click",
    "predict click --table clicks --keys hit --targets clicked --out scores",
)
RECIPE = {"source": "log.csv", "time_field": "time", "columns": COLUMNS, "batch_size": 64}
ONLINE = {
    "pipeline": "online",
    "num_threads": 1,
    "progress": False,
    "snapshotter": {"frequency": 0},
    "train_data": {"table": "place/clicks", "targets": ["clicked"]},
    "evaluation": {"eval_confs": [{"name": "ahead", "table": "place/clicks", "keys": ["hit"], "shifts": [1]}]},
}


@dataclass(frozen=True)
class Fault:
    """One that a signal handler or a slow disk causes too, EINTR or a short write, must not be noticed."""

    call: str
    number: int = 1
    error: str = "EIO"
    mode: str = "once"

    @property
    def is_harmless(self) -> bool:
        return self.mode == "short" or self.error == "EINTR"


@dataclass(frozen=True)
class Ended:
    code: int | str
    text: str
    calls: Mapping[str, int]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("faults", nargs="?")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    folder: Path = options.folder.resolve()
    _write_inputs(folder)
    _load()
    place = folder / "place"
    straight = run_commands(place, None)
    assert straight.code == 0, straight
    expected = _read_results(place)
    if options.faults is not None:
        faults = [Fault(**each) for each in json.loads(options.faults)]
    else:
        faults = _choose(straight.calls, options.seed)
    stop, problems, num_cases, num_noticed = time.monotonic() + options.seconds, [], 0, 0
    for fault in faults:
        if options.faults is None and time.monotonic() > stop:
            break
        num_cases += 1
        problem, is_noticed = try_fault(place, fault, expected)
        num_noticed += is_noticed
        if problem is not None:
            problems.append({**asdict(fault), "problem": problem})
    print(json.dumps({"cases": num_cases, "noticed": num_noticed, "calls": straight.calls, "problems": problems}))
    return int(bool(problems))


def try_fault(place: Path, fault: Fault, expected: Mapping[str, bytes]) -> tuple[str | None, bool]:
    """What went wrong, or None; and whether a command failed, as it should if it cannot go on."""
    ended = run_commands(place, fault)
    return _judge(place, fault, ended, expected), ended.code != 0


def _judge(place: Path, fault: Fault, ended: Ended, expected: Mapping[str, bytes]) -> str | None:
    if ended.code not in (0, 1, 2) or "Traceback" in ended.text:
        return f"with the fault: {ended.code}: {ended.text[-3000:]}"
    if fault.is_harmless and ended.code != 0:
        return f"it must not be noticed: {ended.text[-1000:]}"
    if ended.code != 0 and "error: " not in ended.text:
        return f"failed without an error: {ended.text[-1000:]}"
    again = run_commands(place, None, is_new=False) if ended.code != 0 else ended
    if again.code != 0:
        return f"does not resume after {ended.text[-500:]!r}: {again.code}: {again.text[-3000:]}"
    found = _read_results(place)
    differing = [name for name in expected.keys() | found.keys() if expected.get(name) != found.get(name)]
    return f"other bytes in {sorted(differing)} after {ended.text[-500:]!r}" if differing else None


def _choose(calls: Mapping[str, int], seed: int) -> list[Fault]:
    """Every call of a run, with each of its faults, in an order by chance."""
    every = [
        Fault(call, number, error, mode)
        for call, count in calls.items()
        for number in range(1, count + 1)
        for error in ERRORS[call]
        for mode in (("once",) if error == "EINTR" else ("once", "from then on"))
    ]
    random.Random(seed).shuffle(every)
    interrupted = [Fault(call, 0, "EINTR", "often") for call, errors in ERRORS.items() if "EINTR" in errors]
    return [Fault("write", mode="short"), Fault("read", mode="short"), *interrupted, *every]


def run_commands(place: Path, fault: Fault | None, *, is_new: bool = True) -> Ended:
    """All commands, until one fails, in a forked child."""
    if is_new:
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir()
    reading, writing = os.pipe()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        end_with_parent(parent)
        os.close(reading)
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps(asdict(_run_here(place, fault))).encode())
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status) or not text:
        return Ended(f"killed by signal {os.WTERMSIG(status)}", "", {})
    return Ended(**json.loads(text))


def _run_here(place: Path, fault: Fault | None) -> Ended:
    os.chdir(place)
    shim = ctypes.CDLL(None)
    error = getattr(errno, fault.error) if fault is not None else 0
    call = CALLS.index(fault.call) if fault is not None else -1
    mode = MODES.index(fault.mode) if fault is not None else 0
    shim.samovar_fault(call, ctypes.c_long(fault.number if fault is not None else 0), error, mode, str(place).encode())
    printed, code = io.StringIO(), 0
    with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        for command in COMMANDS:
            code = _run_command(command.split())
            if code != 0:
                break
    shim.samovar_calls.restype = ctypes.c_long
    calls = {name: shim.samovar_calls(number) for number, name in enumerate(CALLS)}
    return Ended(code, printed.getvalue(), calls)


def _run_command(words: Sequence[str]) -> Any:
    from samovar.cli import main as samovar

    sys.argv = ["samovar", *words]
    try:
        samovar()
    except SystemExit as end:
        return end.code or 0
    except BaseException:
        import traceback

        traceback.print_exc()
        return "a traceback"
    return 0


def _read_results(place: Path) -> dict[str, bytes]:
    from samovar.provenance.contract import contract_of

    def as_bytes(value: Any) -> bytes:
        return repr(value).encode() if isinstance(value, list) else bytes(value)

    return {f"{name}/{path}": as_bytes(value) for name in RESULTS for path, value in contract_of(place / name).items()}


def _write_inputs(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    make_log().to_csv(folder / "log.csv", index=False)
    (folder / "model.py").write_text(SCRIPT)
    (folder / "recipe.json").write_text(json.dumps(RECIPE))
    (folder / "online.json").write_text(json.dumps(ONLINE))


def _load() -> None:
    """Import what the commands import, so that no case does. Nothing here starts a thread."""
    import importlib

    names = ("cli.app", "cli.tables", "cli.training", "brewing", "training", "scoring", "provenance.contract")
    for name in (*names, "brewing.engines.duckdb", "training.session", "training.prediction"):
        importlib.import_module(f"samovar.{name}")
    importlib.import_module("torch.optim")


if __name__ == "__main__":
    sys.exit(main())
