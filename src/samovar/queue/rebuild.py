"""Rebuilds a lost queue from result directories, which are the truth. Reads them and changes none."""

from collections import Counter
from collections.abc import Iterable, Iterator

from samovar.config import dump_config
from samovar.config.places import PathLike, as_place
from samovar.errors import BadInput, SamovarError
from samovar.queue.jobs import Queue, State
from samovar.queue.task import Task
from samovar.results import ResultDirectory, open_directory
from samovar.results.directory import CONFIG, SCRIPT
from samovar.runs.find import command_of, find_results
from samovar.store import open_store


def rebuild(queue: Queue, roots: Iterable[PathLike], max_attempts: int = 3) -> Counter[str]:
    """Add a job for each result directory that has none.

    Results made by calls from Python are left out: no command can continue them.

    Args:
        queue: Where the jobs go.
        roots: Result directories, and folders of them.
        max_attempts: Of each job.

    Returns:
        How many directories were found, by the state of the job; or `known`, `left out`, `unreadable`.

    Raises:
        BadInput: A root is not a folder.

    Example:
        >>> rebuild(open_queue("sqlite:///queue.db", is_new=True), ["models"])["done"]
        2
    """
    counts: Counter[str] = Counter()
    for directory in _find(roots):
        try:
            if not _is_made_by_a_command(directory):
                counts["left out"] += 1
                continue
            task, (state, error) = _task(directory, max_attempts), _state(directory)
        except (SamovarError, ValueError, KeyError):  # a damaged directory
            counts["unreadable"] += 1
            continue
        counts[state if queue.put(task, state, error) else "known"] += 1
    return counts


def _find(roots: Iterable[PathLike]) -> Iterator[ResultDirectory]:
    for root in map(as_place, roots):
        if not open_store(root).exists():
            raise BadInput(f"{root}: not a folder")
        yield from (open_directory(place.resolve()) for place in find_results(root))


def _is_made_by_a_command(directory: ResultDirectory) -> bool:
    kind = directory.lineage.kind
    if kind == "table":
        return "source" in directory.config
    return kind == "prediction" or directory.store.size(SCRIPT) is not None


def _task(directory: ResultDirectory, max_attempts: int) -> Task:
    """Run the directory again with its own config and its own script."""
    folder = directory.place
    script = folder / SCRIPT
    return Task(
        command_of(directory.lineage.kind),
        str(folder / CONFIG),
        (),
        dump_config(directory.config),
        str(script) if directory.store.size(SCRIPT) is not None else None,
        str(folder),
        str(folder.parent),
        max_attempts=max_attempts,
    )


def _state(directory: ResultDirectory) -> tuple[State, str | None]:
    if directory.is_finished:
        return "done", None
    status = directory.status
    if status is not None and status.state == "failed" and status.error is not None:
        return "failed", f"{status.error['type']}: {status.error['message']}"
    return "waiting", None
