"""Runs job.py in forked children, with the disk that a test passes, and checks what they leave."""

import importlib.util
import os
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

from samovar.results import ResultDirectory, Snapshot
from samovar.store import LocalStore
from samovar.store.disk import Disk

JOB = Path(__file__).with_name("job.py")


def load_job() -> ModuleType:
    spec = importlib.util.spec_from_file_location("resume_job", JOB)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


job = load_job()


def run_here(root: Path, disk: Disk | None = None) -> str:
    """Run the job in this process."""
    store = LocalStore(root, disk)
    directory = ResultDirectory(store)
    done = job.run(directory, job.CONFIG)
    assert isinstance(done, str)
    return done


def expected_state(hour: int) -> dict[str, Any]:
    state: dict[str, Any] = job.initial_state(job.CONFIG)
    for earlier in range(hour):
        job.train_hour(state, earlier, job.CONFIG)
    return state


def check_snapshot(snapshot: Snapshot) -> None:
    """A state that was read must be that of its hour, never a mixture."""
    expected = expected_state(snapshot.position["hour"])
    assert snapshot.tree["weights"].tobytes() == expected["weights"].tobytes()
    assert snapshot.tree["losses"] == expected["losses"]
    assert repr(snapshot.tree["seen"]) == repr(expected["seen"])


def in_child(act: Callable[[], object]) -> int:
    """Run something in a forked child; returns its exit code, or minus the signal that ended it."""
    child = os.fork()
    if child == 0:
        try:
            act()
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def result_bytes(root: Path) -> dict[str, bytes]:
    """The files that must be the same at the end: model/, evaluation/, logs and what the result is made from."""
    store = LocalStore(root)
    same = [entry.path for part in ("model", "evaluation", "logs") for entry in store.list(part)]
    kept = ["model_config.json", "script.py", "lineage.json", "inventory.json"]
    return {path: store.read(path) for path in [*same, *kept]}


def look(root: Path) -> None:
    """Check that a reader sees something whole at any moment: no directory yet, or the state of some hour."""
    directory = ResultDirectory(LocalStore(root))
    if not directory.is_created:
        return
    assert directory.config == job.CONFIG
    if directory.is_finished or directory.store.attributes().values.get("snapshots"):
        check_snapshot(directory.load_model())
