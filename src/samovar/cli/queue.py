"""The commands `experiment`, `worker` and `queue`: many configs, each run once."""

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from samovar.cli.help import PlainCommand, PlainGroup
from samovar.cli.options import DEFAULT_DB, Conf, Db, Json, MaxAttempts
from samovar.cli.output import make_bars, open_console, open_stderr, print_json, print_line, print_notes, reserve_stdout
from samovar.config import show_value
from samovar.errors import SamovarError, Stopped

if TYPE_CHECKING:
    from samovar.queue import Job, Worker
    from samovar.sweep import Done, Show

_ERROR_WIDTH = 60
_MOST_NAMES = 8
_LOST = "lost"  # running, but its worker is silent


# experiment


def experiment(
    path: Annotated[str, typer.Argument(help="The experiment, a JSON file.", metavar="EXPERIMENT")],
    num_workers: Annotated[
        int,
        typer.Option(
            "-j",
            "--jobs",
            help="Parts at a time; 0 leaves all to the workers of --db.",
            min=0,
            metavar="N",
        ),
    ] = 1,
    db: Annotated[
        str | None, typer.Option(help="A queue shared with other workers. Default: a private one.", metavar="URL")
    ] = None,
    out: Annotated[str | None, typer.Option(help="Directory of the experiment.", metavar="DIR")] = None,
    mix_code: Annotated[
        bool, typer.Option("--mix-code", help="Accept parts in one table that were made with different code.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run many variants of one config and collect one table.

    The variants, called parts, come from a grid, a list or random samples.

    Finished parts are kept. To run a part again, remove its directory. Changed code is refused.

    Example: samovar experiment lr.json -j 4
    """
    from samovar.signals import StopRequest
    from samovar.sweep import run_experiment

    stop = StopRequest()
    with stop.asking(most=2), _show_parts(open_stderr()) as show:
        done = run_experiment(path, out, db=db, num_workers=num_workers, mix_code=mix_code, stop=stop, show=show)
    print_json(_experiment_answer(done)) if as_json else _print_experiment(done)
    if done.errors:
        lines = "".join(f"\n  part {name}: {error}" for name, error in done.errors.items())
        raise SamovarError(
            f"{done.folder}: {len(done.errors)} of {len(done.table.rows)} parts failed or were cancelled. "
            f"Fix the cause and start the experiment again{lines}"
        )


def _experiment_answer(done: "Done") -> dict[str, Any]:
    parts = [
        {
            "name": row.name,
            "state": row.state,
            "code": row.code,
            "changed": row.values,
            "metrics": row.metrics,
            "error": done.errors.get(row.name),
        }
        for row in done.table.rows
    ]
    return {"folder": done.folder, "parts": parts}


def _print_experiment(done: "Done") -> None:
    table = Table(*done.table.columns, box=None)
    for row in done.table.rows:
        measured = (row.metrics[name] for name in done.table.metrics)
        shown = ("" if value is None else f"{value:.5g}" for value in measured)
        facts = done.table.facts_of(row)
        table.add_row(*facts, *(show_value(row.values[key]) for key in done.table.changed), *shown)
    open_console().print(table)
    print_line(done.folder / "table.csv")


@contextmanager
def _show_parts(console: Console) -> "Iterator[Show]":
    """A bar on a terminal, else one line per part that ends."""
    if not console.is_terminal:
        yield _PartLines(console).show
        return
    from samovar.queue import ENDED_STATES

    with make_bars(console, "{task.completed}/{task.total}") as bars:
        task = bars.add_task("starting", total=None)

        def show(states: Mapping[str, str]) -> None:
            running = [name for name, state in states.items() if state == "running"]
            over = sum(state in ENDED_STATES for state in states.values())
            description = f"part {', '.join(running[:_MOST_NAMES])}"
            bars.update(task, description=description, completed=over, total=len(states))

        yield show


class _PartLines:
    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: dict[str, str] = {}

    def show(self, states: Mapping[str, str]) -> None:
        from samovar.queue import ENDED_STATES

        over = {name: state for name, state in states.items() if state in ENDED_STATES}
        if self._shown:
            for name, state in over.items():
                if self._shown.get(name) != state:
                    self._console.print(f"part {name}: {state} ({len(over)} of {len(states)})")
        else:
            self._console.print(f"{len(states)} parts, {len(over)} already done")
        self._shown = dict(states)


# worker


def worker(
    db: Db = DEFAULT_DB,
    once: Annotated[bool, typer.Option("--once", help="Run at most one job, then exit.")] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="Exit when no job is waiting or running anywhere.")
    ] = False,
    name: Annotated[str, typer.Option(help="Shown in the queue, with host and process.", metavar="NAME")] = "worker",
    lease: Annotated[
        float,
        typer.Option(help="Silence after which other workers may take its job.", min=1.0, metavar="SECONDS"),
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Run the jobs of a queue, one after another.

    Start as many workers as you like, on any machines that share the queue and the files.

    The first ctrl-C or SIGTERM saves a snapshot and puts the job back; the second does not wait.

    With --once or --until-empty, the exit code is 1 if a job failed.

    Example: samovar worker --db sqlite:///queue.db --until-empty
    """
    from samovar.queue import Worker, open_queue, worker_name
    from samovar.signals import StopRequest

    stop = StopRequest()
    with stop.asking(most=2), reserve_stdout(as_json):
        made = Worker(open_queue(db), worker_name(name), stop=stop, lease_seconds=lease, report=print_line)
        if once:
            is_idle = not made.run_one()
        else:
            made.run_until_empty() if until_empty else made.run()
            is_idle = made.num_taken == 0
        failed = _find_failed(made, once)
    if stop.count:
        raise Stopped(f"stopped ({stop.reason}); the job that was running is back in the queue and will resume")
    if as_json:
        print_json({"taken": made.num_taken, "failed": failed})
    else:
        print_line("no job is waiting" if is_idle else f"{made.num_taken} taken{'' if once else ', none waiting'}")
    if failed:
        raise SamovarError(
            f"worker: {len(failed)} of its jobs failed ({', '.join(map(str, failed))}). See `samovar queue ls "
            "--failed`, fix the causes, then `samovar queue retry --failed`"
        )


def _find_failed(made: "Worker", once: bool) -> list[int]:
    """Jobs of this worker that failed; without --once only those not done by another worker since."""
    states = {} if once else made.queue.states(sorted(made.failed))
    return sorted(number for number in made.failed if once or states.get(number) == "failed")


# queue

queue = typer.Typer(
    cls=PlainGroup,
    help="Manage a queue of configs, each run exactly once.",
    no_args_is_help=True,
    add_completion=False,
)


@queue.command(cls=PlainCommand)
def add(
    configs: Annotated[list[str], typer.Argument(help="Configs, JSON files; one job per config.", metavar="CONFIG")],
    script: Annotated[str | None, typer.Option(help="A Python file, for train and run.", metavar="FILE")] = None,
    kind: Annotated[
        str, typer.Option(help="What to do with the configs: train, brew, predict or run.", metavar="KIND")
    ] = "train",
    out: Annotated[
        str | None, typer.Option(help="Directory of the result, for a single config.", metavar="DIR")
    ] = None,
    conf: Conf = None,
    priority: Annotated[int, typer.Option(help="Jobs of higher priority run first.", metavar="N")] = 0,
    max_attempts: MaxAttempts = 3,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Add configs to the queue.

    A config that is already in the queue or done is left alone.

    Example: samovar queue add runs/*.json --script model.py --priority 5
    """
    from samovar.config import parse_override
    from samovar.queue import make_task, open_queue

    if out is not None and len(configs) > 1:
        raise typer.BadParameter("--out names one directory, but there are several configs")
    tasks = [
        make_task(
            config,
            kind=kind,
            script=script,
            overrides=list(map(parse_override, conf or ())),
            out=out,
            priority=priority,
            max_attempts=max_attempts,
        )
        for config in configs
    ]
    found = open_queue(db, is_new=True).add(tasks)
    print_notes(added.note for added in found if added.note is not None)
    if as_json:
        print_json([{**_job_answer(added.job), "how": added.how, "note": added.note} for added in found])
        return
    texts = {
        "added": "added",
        "known": "already in the queue ({state}), nothing to do",
        "finished": "already finished, counts as done",
        "again": "its directory was removed, runs again",
        "replaced": "replaced a job that had failed, was cancelled or was rebuilt",
    }
    for added in found:
        job = added.job
        print_line(f"job {job.id}: {job.task.out}: {texts[added.how].format(state=job.state)}")


@queue.command(cls=PlainCommand)
def ls(
    state: Annotated[
        list[str] | None,
        typer.Option(help="Only waiting, running, lost, done, failed or cancelled jobs. Repeatable.", metavar="STATE"),
    ] = None,
    failed: Annotated[bool, typer.Option("--failed", help="Only failed jobs, with their full errors.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """List the jobs of the queue.

    Example: samovar queue ls --state running
    """
    from samovar.queue import STATES, open_queue

    known = [*STATES, _LOST]
    wanted = [*(state or []), *(["failed"] if failed else [])] or known
    for each in wanted:
        if each not in known:
            raise typer.BadParameter(f"no state {each!r}. Available: {', '.join(known)}")
    jobs = open_queue(db).jobs()  # once: what is listed and what is counted are the same jobs
    found = [job for job in jobs if _state_of(job) in wanted or job.state in wanted]
    if as_json:
        print_json(list(map(_job_answer, found)))
        return
    if found:
        open_console().print(_job_table(found, is_full=failed))
    if len(found) == len(jobs):
        print_notes([_count_states(jobs)])
    else:
        print_notes([f"{_count_states(found)} shown; in the queue: {_count_states(jobs)}"])


def _state_of(job: "Job") -> str:
    return _LOST if job.is_lost else job.state


def _count_states(jobs: "list[Job]") -> str:
    counts = Counter(map(_state_of, jobs))
    return ", ".join(f"{count} {each}" for each, count in sorted(counts.items())) or "no jobs"


def _job_table(found: "list[Job]", is_full: bool) -> Table:
    table = Table("id", "state", "kind", "priority", "attempts", "worker", "directory", "error", box=None)
    for job in found:
        error = job.error or ""
        shown = error if is_full else error.partition("\n")[0][:_ERROR_WIDTH]
        state = _state_of(job)
        holder = (job.holder or "").rpartition("/")[0] if job.state == "running" else ""
        row = (str(job.id), state, job.task.kind, str(job.task.priority), f"{job.attempts}/{job.task.max_attempts}")
        table.add_row(*row, holder, job.task.out, shown)
    return table


@queue.command(cls=PlainCommand)
def show(
    number: Annotated[int, typer.Argument(help="The number of a job.", metavar="ID")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Show one job, with its error and the end of its log.

    Example: samovar queue show 1
    """
    from samovar.queue import open_queue

    job = open_queue(db).job(number)
    if as_json:
        print_json({**_job_answer(job), "log": job.log})
        return
    facts = {
        "job": str(job.id),
        "state": f"{job.state}{', but its worker is silent' if job.is_lost else ''}",
        "kind": job.task.kind,
        "directory": job.task.out,
        "config": " ".join([job.task.config_path, *(f"--conf '{each}'" for each in job.task.overrides)]),
        "script": job.task.script,
        "priority": str(job.task.priority),
        "attempts": f"{job.attempts} of {job.task.max_attempts} used",
        "worker": job.holder,
        "last sign": f"{job.silent_seconds:.0f} s ago" if job.silent_seconds is not None else None,
        "exit code": str(job.exit_code) if job.exit_code is not None else None,
        "error": job.error,
    }
    table = Table.grid(padding=(0, 2))
    for name, fact in facts.items():
        if fact is not None:
            table.add_row(name, fact)
    console = open_console()
    console.print(table)
    if job.log:
        console.print("end of its log:")
        console.print(job.log, end="")


@queue.command(cls=PlainCommand)
def retry(
    numbers: Annotated[list[int] | None, typer.Argument(help="Numbers of jobs.", metavar="ID")] = None,
    failed: Annotated[bool, typer.Option("--failed", help="All failed jobs.")] = False,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Run failed or cancelled jobs again.

    They resume from their snapshots.

    Example: samovar queue retry --failed
    """
    from samovar.queue import open_queue

    found_queue = open_queue(db)
    wanted = set(numbers or []) | ({job.id for job in found_queue.jobs(["failed"])} if failed else set())
    if not wanted and not failed:
        raise typer.BadParameter("give job numbers, or --failed")
    changed = {job.id for job in found_queue.retry(sorted(wanted))}
    if as_json:
        jobs = {number: found_queue.job(number) for number in sorted(wanted)}
        print_json([{**_job_answer(job), "is_changed": number in changed} for number, job in jobs.items()])
        return
    for number in sorted(wanted):
        text = "waiting again" if number in changed else f"is {found_queue.job(number).state}, nothing to do"
        print_line(f"job {number}: {text}")
    if not wanted:
        print_line("no job has failed")


@queue.command(cls=PlainCommand)
def cancel(
    numbers: Annotated[list[int], typer.Argument(help="Numbers of jobs.", metavar="ID")],
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Cancel jobs that are waiting or running.

    The worker stops a running job, whose snapshot is kept.

    Example: samovar queue cancel 1
    """
    from samovar.queue import open_queue

    found_queue = open_queue(db)
    changed = {job.id for job in found_queue.cancel(numbers)}
    if as_json:
        print_json([{**_job_answer(found_queue.job(number)), "is_changed": number in changed} for number in numbers])
        return
    for number in numbers:
        text = "cancelled" if number in changed else f"is {found_queue.job(number).state}, nothing to do"
        print_line(f"job {number}: {text}")


@queue.command(cls=PlainCommand)
def rebuild(
    roots: Annotated[list[str], typer.Argument(help="Result directories, or folders that hold them.", metavar="DIR")],
    max_attempts: MaxAttempts = 3,
    db: Db = DEFAULT_DB,
    as_json: Json = False,
) -> None:
    """Rebuild a lost queue from result directories.

    Finished results count as done; the others resume from their snapshots.

    Example: samovar queue rebuild models/ --db sqlite:///queue.db
    """
    from samovar.queue import open_queue
    from samovar.queue import rebuild as read

    counts = read(open_queue(db, is_new=True), roots, max_attempts)
    if as_json:
        print_json(counts)
        return
    print_line(
        ", ".join(f"{count} {state}" for state, count in sorted(counts.items())) or "no result directories found"
    )


def _job_answer(job: "Job") -> dict[str, Any]:
    return {
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
    }
