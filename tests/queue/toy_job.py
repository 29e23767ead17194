"""A tiny job without torch: `python toy_job.py CONFIG OUT`. It saves after each step, and its config can make it wait,
fail or be invalid. Each finish adds one line to the file `finished` beside its directory."""

import os
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from samovar.config import read_config
from samovar.errors import BadInput, SamovarError, Stopped
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore

PATIENCE_SECONDS = 300.0  # a test that dies does not leave its jobs behind
asked_to_stop = False


def main() -> None:
    config, out = read_config(sys.argv[1]), Path(sys.argv[2])
    signal.signal(signal.SIGTERM, signal.SIG_IGN if config.get("is_deaf") else request_stop)
    if config.get("is_wrong"):
        raise BadInput("toy: is_wrong must not be set")
    if config.get("says_nothing_and_leaves"):
        sys.exit(0)
    directory = ResultDirectory(LocalStore(out))
    with begin(
        directory, ResultPlan("toy", config, script=Path(__file__).read_bytes()), heartbeat_seconds=0.2
    ) as result:
        if not result.is_finished:
            work(result, config["steps"], out, config)


def work(result: OpenResult, steps: int, out: Path, config: dict[str, object]) -> None:
    snapshot = result.restore()
    first = snapshot.position if snapshot is not None else 0
    for step in range(first, steps):
        result.append("metrics.jsonl", {"step": step, "loss": 1.0 / (step + 1), "began_at": first})
        result.save({"step": step}, step + 1)
        wait_for(config.get(f"wait_at_{step}"))
        if config.get("fails_until") is not None and not Path(str(config["fails_until"])).exists():
            raise RuntimeError("the toy broke")
        if asked_to_stop:
            raise Stopped("stopped. Start it again to continue")
    result.finish({"steps": steps}, steps)
    descriptor = os.open(out.parent / "finished", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(descriptor, f"{out.name}\n".encode())


def wait_for(name: object) -> None:
    """Until a file exists, or a stop is requested."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while name is not None and not Path(str(name)).exists() and not asked_to_stop:
        if time.monotonic() > deadline:
            raise RuntimeError(f"the toy waited too long for {name}")
        time.sleep(0.01)


def request_stop(number: int, frame: FrameType | None) -> None:
    global asked_to_stop
    asked_to_stop = True


if __name__ == "__main__":
    try:
        main()
    except SamovarError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
