"""Runs an experiment: makes its parts, runs them through the queue, collects a table. Never touches finished parts.

document ─▶ changes ─▶ parts (configs/) ─▶ queue ─▶ workers in threads, one child process each ─▶ table
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from samovar.config import merge, read_config, resolve_path
from samovar.config.identity import named_place
from samovar.config.places import PathLike, Place, Url, as_path, as_place
from samovar.errors import BadInput, SamovarError, Stopped
from samovar.queue import ENDED_STATES, Job, Queue, Task, Worker, make_task, open_queue, worker_name
from samovar.queue.task import Command, make_command
from samovar.signals import StopRequest
from samovar.store import open_store, write_file
from samovar.sweep.code import check_code, checking_code, report_mixed_code
from samovar.sweep.document import Experiment, list_changes
from samovar.sweep.parts import QUEUE, Part, Parts, choose_threads, make_paths_absolute, read_base
from samovar.sweep.table import Table, collect

Show = Callable[[Mapping[str, str]], None]
"""Called repeatedly with the state of each part."""
_POLL_SECONDS = 0.3


@dataclass(frozen=True)
class Request:
    """An experiment that is asked for."""

    path: Path
    """The experiment file."""
    out: Place | None = None
    db: str | None = None
    """The address of a shared queue; None for the experiment's own."""
    num_workers: int = 1
    mix_code: bool = False
    """Accept parts that were made with different code."""
    make_command: Command = make_command
    """The command that runs a part."""


@dataclass(frozen=True)
class Done:
    """An experiment whose parts have all ended: what `run_experiment` returns.

    Attributes:
        folder: Its directory.
        table: One row per part.
        errors: By part, of those that failed or were cancelled.

    Example:
        >>> done = run_experiment("counts.json", num_workers=2)
        >>> done.errors
        {}
    """

    folder: Place
    table: Table
    errors: Mapping[str, str]


def run_experiment(
    path: PathLike,
    out: PathLike | None = None,
    *,
    db: str | None = None,
    num_workers: int = 1,
    mix_code: bool = False,
    stop: StopRequest | None = None,
    show: Show = lambda states: None,
) -> Done:
    """Run all parts of an experiment that are not finished, until each is done, failed or cancelled.

    Args:
        path: The experiment file.
        out: The directory of the experiment. Default: the one that the file names, or its own name.
        db: The address of a queue shared with other workers. Default: the experiment's own.
        num_workers: How many parts run at a time. 0 leaves all to the workers of `db`.
        mix_code: Accept parts in one table that were made with different code.
        stop: Asking it stops the parts after their next snapshot. An interrupt does the same.
        show: Called repeatedly with the state of each part.

    Returns:
        The table of all parts, also written to `table.csv`, and the errors.

    Raises:
        ConfigError: The experiment file is not valid.
        BadInput: There are no workers.
        Conflict: The code has changed since some of the parts were made, and others are missing.
        Stopped: Stopped on request; the same call continues.

    Example:
        >>> done = run_experiment("counts.json", num_workers=2)
        >>> done.table.to_frame().drop(columns="code")
          part state  count  loss
        0    0  done      1   1.0
        1    1  done      2   0.5
    """
    if num_workers == 0 and db is None:
        raise BadInput("an experiment without workers of its own (-j 0) needs a shared queue, which --db must name")
    request = Request(
        as_path(path, "the experiment"), None if out is None else as_place(out, "out"), db, num_workers, mix_code
    )
    return run_parts(request, stop or StopRequest(), show)


def run_parts(request: Request, stop: StopRequest, show: Show) -> Done:
    """Run the experiment that was asked for."""
    tree = read_config(request.path)
    experiment = Experiment.load(tree, str(request.path))
    folder = (request.out or named_place(request.path, tree, ("out",))).resolve()
    parts = _make_parts(experiment, request, folder)
    tasks = [_task(experiment, request, part) for part in parts]
    if not request.mix_code:
        check_code(tasks)
        request = replace(request, make_command=checking_code(request.make_command, tasks))
    queue = open_queue(request.db or _own_queue(folder), is_new=True)
    numbers = [added.job.id for added in queue.add(tasks)]
    queue.retry(numbers)  # starting an experiment again retries what failed
    names = dict(zip(numbers, (part.name for part in parts), strict=True))
    _run_jobs(queue, names, request, stop, show)
    states = {names[number]: state for number, state in queue.states(numbers).items()}
    table = collect(parts, states, experiment.metrics)
    _write_table(folder, table)
    report_mixed_code([row.code for row in table.rows])
    if stop.count:
        reason = f" ({stop.reason})" if stop.reason else ""
        raise Stopped(f"{folder}: stopped{reason}. Start it again to continue")
    failed = queue.jobs(["failed", "cancelled"], numbers)
    return Done(folder, table, {names[job.id]: _explain(job) for job in failed})


def _own_queue(folder: Place) -> str:
    if isinstance(folder, Url):
        raise BadInput(f"{folder}: an experiment in an object store needs a queue elsewhere, which --db must name")
    return f"sqlite:///{folder / QUEUE}"


def _explain(job: Job) -> str:
    return "was cancelled" if job.state == "cancelled" else job.error or ""


def _make_parts(experiment: Experiment, request: Request, folder: Place) -> list[Part]:
    parts = Parts(folder)
    parts.check_place()
    parent, base = read_base(experiment, request.path.parent)
    if experiment.kind == "train" and base.get("num_threads") is None:
        base["num_threads"] = choose_threads(parts.read_configs(), request.num_workers)
    home = request.path.parent.resolve()
    configs = [
        (change, make_paths_absolute(merge(base, change, where="experiment"), home, experiment.kind))
        for change in list_changes(experiment)
    ]
    return parts.make(configs, parent)


def _task(experiment: Experiment, request: Request, part: Part) -> Task:
    script = None if experiment.script is None else resolve_path(experiment.script, request.path.parent)
    return make_task(
        part.config,
        kind=experiment.kind,
        script=script,
        out=part.out,
        priority=experiment.priority,
        max_attempts=experiment.max_attempts,
    )


def _run_jobs(queue: Queue, names: Mapping[int, str], request: Request, stop: StopRequest, show: Show) -> None:
    numbers = list(names)
    failures: list[Exception] = []

    def is_over() -> bool:
        return all(state in ENDED_STATES for state in queue.states(numbers).values())

    def work(number: int) -> None:
        try:
            name = worker_name(f"experiment-{number}")
            Worker(queue, name, lambda line: None, stop, make_command=request.make_command).run(is_over)
        except Exception as error:  # raised by the main thread; here it would be lost
            failures.append(error)
            stop.ask()  # the other workers would fail too

    if is_over():
        return
    threads = [threading.Thread(target=work, args=(number,)) for number in range(request.num_workers)]
    for thread in threads:
        thread.start()
    try:
        _follow(queue, names, threads, stop, show)
    except BaseException:
        stop.ask()  # otherwise the threads would run all other parts
        raise
    finally:
        for thread in threads:
            thread.join()
    if failures:
        raise failures[0]


def _follow(
    queue: Queue, names: Mapping[int, str], threads: Sequence[threading.Thread], stop: StopRequest, show: Show
) -> None:
    while True:
        is_working = any(thread.is_alive() for thread in threads)
        try:
            states = queue.states(list(names))
        except SamovarError:
            if not is_working:
                raise
            stop.ask()
            return
        show({names[number]: state for number, state in states.items()})
        if not is_working and (threads or stop.count or all(state in ENDED_STATES for state in states.values())):
            return
        time.sleep(_POLL_SECONDS)


def _write_table(folder: Place, table: Table) -> None:
    store = open_store(folder)
    write_file(store, "table.csv", table.to_csv().encode())
    if table.metrics:
        write_file(store, "metrics.png", table.to_png())
