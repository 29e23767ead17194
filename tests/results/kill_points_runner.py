"""The process behind test_kill_points.py: forks children that are killed, fail or lose power, and checks the rest."""

import json
import os
import random
import shutil
import signal
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.results import rehearsal

from samovar.errors import StoreError
from samovar.results import ResultDirectory
from samovar.store import LocalStore
from samovar.testing.disks import FAULTS, CountingDisk, FailingDisk, KillingDisk, PowerLoss, RecordingDisk


def kill(folder: Path) -> dict[str, int]:
    straight, points = run_straight(folder)
    killed = 0
    for point in range(1, points + 1):
        root = folder / "killed"
        code = rehearsal.in_child(partial(rehearsal.run_here, root, KillingDisk(point)))
        killed += code == -signal.SIGKILL
        resume(root, straight, f"point {point}")
    return {"points": points, "killed": killed}


def kill_twice(folder: Path, rounds: str) -> dict[str, int]:
    straight, points = run_straight(folder)
    chance = random.Random(1)
    for number in range(int(rounds)):
        root = folder / "killed"
        for point in (chance.randint(1, points), chance.randint(1, points)):
            rehearsal.in_child(partial(rehearsal.run_here, root, KillingDisk(point)))
        resume(root, straight, f"round {number}")
    return {"rounds": int(rounds)}


def kill_from_outside(folder: Path, count: str) -> dict[str, int]:
    straight, points = run_straight(folder)
    chance = random.Random(2)
    killed = 0
    for number in range(int(count)):
        root = folder / "killed"
        reader, writer = os.pipe()
        point = chance.randint(1, points)
        child = os.fork()
        if child == 0:
            rehearsal.run_here(root, KillingDisk(point, partial(wait_for_the_end, writer)))
            os._exit(0)
        assert os.read(reader, 4) == b"here"
        os.kill(child, signal.SIGKILL)
        killed += os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
        os.close(reader)
        os.close(writer)
        resume(root, straight, f"kill {number}")
    return {"killed": killed}


def wait_for_the_end(writer: int) -> None:
    os.write(writer, b"here")
    signal.pause()


def power_loss(folder: Path, tries: str) -> dict[str, int]:
    straight, _ = run_straight(folder)
    disk = RecordingDisk()
    rehearsal.run_here(folder / "recorded", disk)
    losses = 0
    for attempt in range(int(tries)):
        power = PowerLoss(folder / "recorded")
        for number, event in enumerate(disk.events):
            power.apply(*event)
            power.write_survivors(folder / "lost", random.Random(f"{attempt} {number}"))
            resume(folder / "lost", straight, f"power loss after operation {number}: {event[0]}")
            losses += 1
    return {"losses": losses}


def fault(folder: Path, name: str) -> dict[str, int]:
    straight, points = run_straight(folder)
    faults = 0
    for number in range(1, points // 2 + 1):
        root = folder / "faulty"
        is_vanishing = name == "vanished folder"
        disk = FailingDisk(number, FAULTS.get(name, 0), root if is_vanishing else None)
        if is_vanishing and not root.exists() and number == 1:
            continue  # there is no folder yet that could vanish
        faults += fails_clearly(root, disk, f"{name} at operation {number}")
        moved = root.with_name(root.name + ".moved")
        if moved.exists():
            shutil.rmtree(root, ignore_errors=True)
            moved.rename(root)
        resume(root, straight, f"{name} at operation {number}")
    return {"faults": faults}


def fails_clearly(root: Path, disk: FailingDisk, where: str) -> bool:
    """Whether the run raised a clear error. It may also succeed, if the failed operation was only a clean-up."""

    def run() -> None:
        try:
            rehearsal.run_here(root, disk)
        except StoreError as error:
            os._exit(3 if "could not" in str(error) or "is missing" in str(error) else 4)

    code = rehearsal.in_child(run)
    assert code in (0, 3), where
    return code == 3


def run_straight(folder: Path) -> tuple[dict[str, bytes], int]:
    disk = CountingDisk()
    rehearsal.run_here(folder / "straight", disk)
    return rehearsal.result_bytes(folder / "straight"), disk.points


def resume(root: Path, straight: dict[str, bytes], where: str) -> None:
    """A new process sees nothing half done, resumes, ends with the same bytes, and leaves no unfinished files."""
    was_finished = ResultDirectory(LocalStore(root)).is_finished
    assert rehearsal.in_child(partial(rehearsal.look, root)) == 0, where
    assert rehearsal.in_child(partial(rehearsal.run_here, root)) == 0, where
    found = rehearsal.result_bytes(root)
    differing = [path for path in found.keys() | straight.keys() if found.get(path) != straight.get(path)]
    assert not differing, (where, differing)
    assert not (root / "snapshot").exists(), where
    assert rehearsal.run_here(root) == "finished already: nothing to do", where
    if not was_finished:
        assert not leftovers(root), (where, leftovers(root))
    shutil.rmtree(root)


def leftovers(root: Path) -> list[Path]:
    """Unfinished files, except those of this process, which is alive."""
    files = [path for name in ("tmp", "locks", "open") for path in root.glob(f".samovar/{name}/*")]
    return [path for path in files if f"-{os.getpid()}-" not in path.name]


REHEARSALS: dict[str, Callable[..., dict[str, int]]] = {
    "kill": kill, "kill_twice": kill_twice, "kill_from_outside": kill_from_outside,
    "power_loss": power_loss, "fault": fault,
}  # fmt: skip

if __name__ == "__main__":
    what, folder, *arguments = sys.argv[1:]
    print(json.dumps(REHEARSALS[what](Path(folder), *arguments)))
