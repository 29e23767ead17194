"""`samovar queue add`: configs to be done."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.queue.database import DEFAULT, Db
from samovar.cli.queue.job_answer import describe_job


def add(
    configs: Annotated[list[Path], typer.Argument(help="Configs, JSON files; a job each.", metavar="CONFIG…")],
    script: Annotated[Path | None, typer.Option(help="A Python file, for train and run.")] = None,
    kind: Annotated[str, typer.Option(help="What is done with a config: train, brew, predict, run.")] = "train",
    out: Annotated[
        Path | None, typer.Option(help="Directory of the result, of a single config.", metavar="DIR")
    ] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    priority: Annotated[int, typer.Option(help="Higher ones are done first.")] = 0,
    max_attempts: Annotated[int, typer.Option(help="Failures and dead workers until it is given up.", min=1)] = 3,
    db: Db = DEFAULT,
    as_json: Json = False,
) -> None:
    """Put configs into the queue.

    One that is there or done already stays as it is.

    Example: samovar queue add runs/*.json --script model.py --priority 5
    """
    from samovar.queue import make_task, open_queue

    if out is not None and len(configs) > 1:
        raise typer.BadParameter("--out is one directory, but there are several configs: name them in the configs")
    tasks = [
        make_task(
            config,
            kind=kind,
            script=script,
            overrides=conf or (),
            out=out,
            priority=priority,
            max_attempts=max_attempts,
        )
        for config in configs
    ]
    found = open_queue(db, is_new=True).add(tasks)
    if as_json:
        print_json([{**describe_job(added.job), "how": added.how} for added in found])
        return
    said = {
        "added": "added",
        "known": "is in the queue already ({state}), nothing to do",
        "finished": "is finished already, counts as done",
        "again": "its directory was removed, is done again",
        "replaced": "replaced a job that had failed, was cancelled or was rebuilt",
    }
    for added in found:
        job = added.job
        print(f"job {job.id}: {job.task.out}: {said[added.how].format(state=job.state)}")
