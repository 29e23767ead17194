"""`samovar worker`: does the jobs of a queue, one after the other."""

from typing import TYPE_CHECKING, Annotated

import typer

from samovar.cli.answer import Json, only_answer, print_json
from samovar.cli.queue.database import DEFAULT, Db
from samovar.errors import SamovarError, Stopped

if TYPE_CHECKING:
    from samovar.queue import Worker


def worker(
    db: Db = DEFAULT,
    once: Annotated[bool, typer.Option("--once", help="Do one job, if one waits, and end.")] = False,
    until_empty: Annotated[
        bool, typer.Option("--until-empty", help="End when no job waits, and none runs anywhere.")
    ] = False,
    name: Annotated[str, typer.Option(help="Shown in the queue, with host and process.")] = "worker",
    lease: Annotated[
        float, typer.Option(help="Silence, in seconds, after which others take its job over.", min=1.0)
    ] = 60.0,
    as_json: Json = False,
) -> None:
    """Do the jobs of a queue, one after the other.

    Start as many as you like, also on other machines. The first ctrl-C or SIGTERM lets the job save a snapshot and puts
    it back into the queue; the second does not wait. With --once or --until-empty the exit code is 1 when a job failed.

    Example: samovar worker --db sqlite:///queue.db --until-empty
    """
    from samovar.queue import Worker, open_queue, worker_name
    from samovar.signals import StopRequest

    stop = StopRequest()
    with stop.asking(most=2), only_answer(as_json):
        made = Worker(open_queue(db), worker_name(name), stop=stop, lease_seconds=lease, report=_say)
        if once:
            is_idle = not made.run_one()
        else:
            made.run_until_empty() if until_empty else made.run()
            is_idle = made.num_taken == 0
        failed = _failed(made, once)
    if stop.count:
        raise Stopped(f"stopped ({stop.reason}): what ran is back in the queue and goes on from its snapshot")
    if as_json:
        print_json({"taken": made.num_taken, "failed": failed})
    else:
        print("no job waits" if is_idle else f"{made.num_taken} taken, none waits" if not once else "one taken")
    if failed:
        raise SamovarError(
            f"worker: {len(failed)} of its jobs failed ({', '.join(map(str, failed))}); expected none: see "
            "`samovar queue ls --failed`, mend what they name, then `samovar queue retry --failed`"
        )


def _failed(made: "Worker", once: bool) -> list[int]:
    """Jobs of this worker that failed; without --once only those for good, as others may have been done since."""
    states = {} if once else made.queue.states(sorted(made.failed))
    return sorted(number for number in made.failed if once or states.get(number) == "failed")


def _say(line: str) -> None:
    print(line, flush=True)
