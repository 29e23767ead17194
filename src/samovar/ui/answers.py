"""What the pages of one run show, as plain values: read in a child process, by the calls behind `show`, `chain`, `why`,
`diff`, `plot` and `queue`. Draws nothing.
"""

import hashlib
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from samovar.config import dump_config, show_value
from samovar.errors import AlreadyExists, BadInput, NotFound, SamovarError
from samovar.results import Link, ResultDirectory, open_directory
from samovar.results.artifacts import METRICS_LOG, TIMING_LOG, read_log_end, read_tail_end
from samovar.results.environment import flat_environment
from samovar.results.snapshot import committed_snapshots, read_manifest
from samovar.runs import diff as compare
from samovar.runs import plot
from samovar.runs.progress import read_progress
from samovar.ui.decimation import decimate, smooth

Answer = dict[str, Any]
MOST_FILES = 500
MOST_FILE_BYTES = 256 << 10
MOST_POINTS = 1200
_LOG_LINES = 16
_STOP_FILE = "stop"  # callbacks/stopping.py, which would import torch


def open_run(path: str) -> ResultDirectory:
    """The result at a path below the folder of the page, in which we are.

    Raises:
        BadInput: A link leads out of the folder.
    """
    if not Path(path).resolve().is_relative_to(Path.cwd()):
        raise BadInput(f"{path} leads out of the folder of this page")
    return open_directory(path)


def read_run(path: str) -> Answer:
    """Everything about one run. A part that is damaged is replaced by what is wrong with it."""
    directory = open_run(path)
    look, entries = directory.look(), directory.store.list()
    status = look.status
    return {
        "name": path,
        "kind": directory.lineage.kind,
        "id": directory.id,
        "state": look.condition,
        "description": directory.describe_state(),
        "holder": None if look.holder is None else asdict(look.holder),
        "heartbeat": None if status is None else status.heartbeat,
        "position": None if status is None else status.position,
        "error": None if status is None else status.error,
        "code_changes": [asdict(change) for change in directory.code_changes],
        "config": directory.config,
        "config_text": dump_config(directory.config),
        "progress": _or_problem(lambda: _progress(directory)),
        "snapshots": _or_problem(lambda: _snapshots(directory)),
        "ledger": _or_problem(lambda: _ledger(directory)),
        "environment": _or_problem(lambda: flat_environment(directory.environment)),
        "git": _or_problem(lambda: directory.environment.get("git")),
        "log": _or_problem(lambda: _log_lines(directory)),
        "sizes": directory.sizes(),
        "files": [(entry.path, entry.size) for entry in entries[:MOST_FILES]],
        "num_files": len(entries),
        "sources": _or_problem(lambda: _links(directory.chain())),
    }


def _or_problem(read: Any) -> Any:
    try:
        return read()
    except NotFound:
        return None
    except SamovarError as error:
        return {"problem": str(error)}


def _progress(directory: ResultDirectory) -> Answer | None:
    found = read_progress(directory)
    return None if found is None else {**asdict(found), "seconds_left": found.seconds_left}


def _snapshots(directory: ResultDirectory) -> list[Answer]:
    """The newest first. The timing log is sealed with a snapshot: its last sealed line says when that was."""
    sealed = read_log_end(directory.store, TIMING_LOG)
    newest_at = sealed[-1].get("time") if sealed else None
    return [
        {
            "name": name.name,
            "position": read_manifest(directory.store, name).position,
            "time": newest_at if number == 0 else None,
        }
        for number, name in enumerate(committed_snapshots(directory.store))
    ]


def _ledger(directory: ResultDirectory) -> Answer | None:
    ledger = directory.ledger
    return None if ledger is None else ledger.to_dict()


def _log_lines(directory: ResultDirectory) -> list[Answer]:
    return read_tail_end(directory.store, METRICS_LOG, _LOG_LINES)


def _links(links: Sequence[Link]) -> list[Answer]:
    return [
        {
            "depth": link.depth,
            "key": link.source.key,
            "path": link.source.path,
            "id": link.source.id,
            "kind": None if link.origin is None else link.origin.lineage.kind,
            "state": link.state,
            "is_stale": link.is_stale,
            "cut": link.cut,
        }
        for link in links
    ]


def read_chain(path: str) -> Answer:
    """What a run was made from, and why a part of that is stale."""
    from samovar.provenance import why

    directory = open_run(path)
    reasons = why(path)
    return {
        "name": path,
        "kind": directory.lineage.kind,
        "links": _links(directory.chain()),
        "why": asdict(reasons),
        "is_stale": bool(reasons),
    }


def read_diff(paths: Sequence[str], baseline: str | None, ignore: Sequence[str], environment: bool) -> Answer:
    """The keys in which configs differ."""
    for path in paths:
        open_run(path)
    found = compare(list(paths), baseline=baseline, ignore=ignore, environment=environment)
    return {"names": list(found.names), "rows": {key: list(map(show_value, row)) for key, row in found.rows.items()}}


def read_curves(
    paths: Sequence[str], metrics: Sequence[str], strength: float = 0.0, after: str | None = None
) -> Answer | None:
    """The curves of runs, live; None if they are still those of the cursor `after`."""
    directories = [open_run(path) for path in paths]
    cursor = _cursor([*metrics, str(strength)], directories)
    if cursor == after:
        return None
    found = plot(list(paths), metrics, live=True)
    panels = []
    for panel in found.panels:
        lines = []
        for line in panel.lines:
            kept = decimate(line.values, MOST_POINTS)
            smoothed = smooth(line.values, strength) if strength else []
            num_sealed = len(line.values) - line.num_open
            lines.append(
                {
                    "run": line.run,
                    "label": line.label,
                    "x": [line.steps[each] for each in kept],
                    "y": [line.values[each] for each in kept],
                    "smooth": [smoothed[each] for each in kept] if smoothed else None,
                    "num_points": len(line.values),
                    "num_open": line.num_open,
                    "open_from": line.steps[num_sealed] if line.num_open else None,
                }
            )
        panels.append({"metric": panel.metric, "lines": lines})
    return {"cursor": cursor, "panels": panels, "metrics": list(found.metrics)}


def _cursor(asked: Sequence[str], directories: Sequence[ResultDirectory]) -> str:
    """Another text once a log has grown."""
    seen = []
    for directory in directories:
        store = directory.store
        sizes = [(entry.path, entry.size) for entry in store.list("logs/metrics")]
        seen.append((directory.name, store.size(f"logs/{METRICS_LOG}"), sizes, len(store.read_tail(METRICS_LOG))))
    return hashlib.sha256(repr((asked, seen)).encode()).hexdigest()[:16]


def read_panels(paths: Sequence[str], metrics: Sequence[str] = ()) -> list[Answer]:
    """The panels of `read_curves`; none if the runs have no numbers yet."""
    try:
        found = read_curves(paths, metrics)
    except BadInput:
        return []
    panels: list[Answer] = [] if found is None else found["panels"]
    return panels


def read_progress_of(path: str) -> Answer | None:
    """How far a training is; None if it does not say, or is gone."""
    try:
        return _progress(open_run(path))
    except SamovarError:
        return None


def read_file(path: str, name: str, start: int = 0, most: int = MOST_FILE_BYTES) -> Answer:
    """A piece of a file of a run, and how large the whole is."""
    directory = open_run(path)
    size = directory.store.size(name)
    if size is None:
        raise BadInput(f"{path} has no file {name}")
    data = directory.store.read(name, start, start + most)
    return {"data": data, "size": size, "start": start}


def read_queue(url: str) -> list[Answer]:
    """All jobs, as `samovar queue ls --json` has them, and the ends of their logs."""
    from samovar.queue import open_queue

    return [
        {
            "id": job.id,
            "state": job.state,
            "is_lost": job.is_lost,
            "kind": job.task.kind,
            "out": job.task.out,
            "config": job.task.config_path,
            "script": job.task.script,
            "priority": job.task.priority,
            "attempts": job.attempts,
            "max_attempts": job.task.max_attempts,
            "epoch": job.epoch,
            "worker": job.holder,
            "silent_seconds": job.silent_seconds,
            "exit_code": job.exit_code,
            "error": job.error,
            "log": job.log,
        }
        for job in open_queue(url, patience_seconds=5.0).jobs()
    ]


def change_queue(url: str, action: str, number: int) -> bool:
    """Retry or cancel a job; False if there is nothing to do."""
    from samovar.queue import open_queue

    found = open_queue(url, patience_seconds=5.0)
    return bool(found.retry([number]) if action == "retry" else found.cancel([number]))


def stop_run(path: str) -> bool:
    """Ask a running training to stop after its URI, as `touch DIR/stop` does; False if none is running there."""
    directory = open_run(path)
    if directory.kind != "model" or directory.look().condition != "running":
        return False
    with suppress(AlreadyExists):  # asked already
        directory.store.create_if_absent(_STOP_FILE, b"")
    return True
