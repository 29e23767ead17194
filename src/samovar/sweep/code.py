"""Which code the parts of an experiment are made with: a table does not mix code unless it is told to. Runs nothing."""

import logging
from collections.abc import Callable, Sequence

from samovar.errors import Conflict
from samovar.queue.task import Command, Task, read_code
from samovar.results import ResultDirectory
from samovar.results.code import diff_code, find_changed_files, name_code
from samovar.store import open_store

_log = logging.getLogger(__name__)
_MOST_NAMES = 8


def check_code(tasks: Sequence[Task]) -> None:
    """Compare the code that parts were made with, or are being made with, and the code that the others will get.

    If all parts are finished with one code, nothing is made, and other code is only reported.

    Raises:
        Conflict: The parts would have different code.
    """
    directories = [ResultDirectory(open_store(task.out)) for task in tasks]
    restarts = tasks[0].kind == "run"  # a stage that is not finished starts over, with whatever code it gets
    made = [each for each in directories if each.is_created and each.code and (each.is_finished or not restarts)]
    if not made:
        return
    files = read_code(tasks[0])  # an experiment has one script
    changed = [each for each in made if files and find_changed_files(each, files)]
    is_mixed = len({name_code(each.code) for each in made}) > 1
    if not changed and not is_mixed:
        return
    difference = diff_code(changed[0], files) if changed else ""
    names = ", ".join(each.name for each in (changed or made)[:_MOST_NAMES])
    if is_mixed or not all(each.is_finished for each in directories):
        raise Conflict(
            f"one table would mix results of different code. Restore the old code, use another --out, or mix them "
            f"with --mix-code. The code has changed since these parts were made: {names}{difference}"
        )
    _log.warning(f"the code has changed since these parts were made, and they are not made again: {names}{difference}")


def checking_code(make_command: Command, tasks: Sequence[Task]) -> Command:
    """A command that fails if the script was changed while the experiment runs."""

    def command(task: Task) -> list[str]:
        check_code(tasks)
        return make_command(task)

    return command


def report_mixed_code(names: Sequence[str | None], report: Callable[[str], None] = _log.warning) -> None:
    """Say so if the rows of a table have different code."""
    known = sorted({name for name in names if name is not None})
    if len(known) > 1:
        report(f"the parts of this table were made with different code: {', '.join(known)}")
