"""A lost queue, made again from directories: they are the truth. Reads them, and changes none."""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from samovar.config import dump_config
from samovar.errors import BadInput, SamovarError
from samovar.queue.queue import Queue, State
from samovar.queue.task import Task
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import CONFIG, SCRIPT
from samovar.runs.find import command_of, find_results


def rebuild(queue: Queue, roots: Iterable[Path], max_attempts: int) -> Counter[str]:
    """A job for each result directory at or below the roots, unless there is one; how many by state. What a call from
    Python made is left out: no command can go on with it."""
    counts: Counter[str] = Counter()
    for directory in _find(roots):
        try:
            found = _read(directory)
        except (SamovarError, ValueError, KeyError):  # of one that is damaged
            counts["unreadable"] += 1
            continue
        if found is None:
            counts["left out"] += 1
            continue
        task, state, error = found
        counts[state if queue.put(replace(task, max_attempts=max_attempts), state, error) else "known"] += 1
    return counts


def _find(roots: Iterable[Path]) -> Iterator[ResultDirectory]:
    for root in roots:
        if not root.is_dir():
            raise BadInput(f"{root}: is no folder; expected a result directory, or a folder of them: check the path")
        yield from (open_directory(path.resolve()) for path in find_results(root))


def _read(directory: ResultDirectory) -> tuple[Task, State, str | None] | None:
    return (_task(directory), *_state(directory)) if _is_of_a_command(directory) else None


def _is_of_a_command(directory: ResultDirectory) -> bool:
    kind = directory.lineage.kind
    if kind == "table":
        return "source" in directory.config
    return kind == "prediction" or (Path(directory.name) / SCRIPT).exists()


def _task(directory: ResultDirectory) -> Task:
    """The directory run again as it stands: its own config, its own script."""
    folder = Path(directory.name)
    script = folder / SCRIPT
    return Task(
        command_of(directory.lineage.kind),
        str(folder / CONFIG),
        (),
        dump_config(directory.config),
        str(script) if script.exists() else None,
        str(folder),
        str(folder.parent),
    )


def _state(directory: ResultDirectory) -> tuple[State, str | None]:
    if directory.is_finished:
        return "done", None
    status = directory.status
    if status is not None and status.state == "failed" and status.error is not None:
        return "failed", f"{status.error['type']}: {status.error['message']}"
    return "waiting", None
