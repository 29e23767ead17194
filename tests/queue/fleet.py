"""Real worker processes that run toy jobs. They are forked from a server that has imported everything, because tests
kill hundreds of them."""

import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Sequence
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from samovar.errors import SamovarError, Stopped
from samovar.queue import Queue, Task, Worker, open_queue, worker_name
from samovar.signals import StopRequest

TOY = Path(__file__).with_name("toy_job.py")
_context = multiprocessing.get_context("forkserver")
_context.set_forkserver_preload(["tests.queue.fleet"])


def toy_command(task: Task) -> list[str]:
    return [sys.executable, str(TOY), task.config_path, task.out]


def toy_task(folder: Path, name: str, config: dict[str, Any] | None = None, **options: Any) -> Task:
    path = folder / "configs" / f"{name}.json"
    path.parent.mkdir(exist_ok=True, parents=True)
    text = json.dumps({"steps": 2, "name": name, **(config or {})})
    path.write_text(text)
    return Task("run", str(path), (), text, str(TOY), str(folder / name), str(folder), **options)


def work(url: str, lease_seconds: float, is_once: bool, patience_seconds: float) -> None:
    """What a worker process does."""
    os.setpgid(0, 0)
    stop = StopRequest()
    worker = Worker(
        open_queue(url, patience_seconds=patience_seconds),
        worker_name("toy"),
        report=lambda line: None,
        stop=stop,
        lease_seconds=lease_seconds,
        poll_seconds=0.1,
        make_command=toy_command,
    )
    try:
        with stop.asking(most=2):
            worker.run_one() if is_once else worker.run_until_empty()
    except SamovarError as error:
        print(error, file=sys.stderr)
        os._exit(error.exit_code)
    os._exit(Stopped.exit_code if stop.count else 0)


def start_worker(
    url: str, lease_seconds: float = 60.0, is_once: bool = False, patience_seconds: float = 20.0
) -> ForkServerProcess:
    process = _context.Process(target=work, args=(url, lease_seconds, is_once, patience_seconds))
    process.start()
    return process


def kill(process: ForkServerProcess) -> None:
    assert process.pid is not None
    os.kill(process.pid, signal.SIGKILL)
    process.join()


def run_here(queue: Queue, lease_seconds: float = 60.0) -> None:
    """All jobs, in this process."""
    Worker(
        queue, worker_name("here"), lambda line: None, lease_seconds=lease_seconds, make_command=toy_command
    ).run_until_empty()


def finishes(folder: Path) -> list[str]:
    """The directories that were finished, one entry per time."""
    path = folder / "finished"
    return path.read_text().splitlines() if path.exists() else []


def metrics(out: str | Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (Path(out) / "logs/metrics.jsonl").read_text().splitlines()]


def children(process: ForkServerProcess) -> Sequence[int]:
    """The process numbers of a worker's children."""
    path = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    return [int(word) for word in path.read_text().split()]
