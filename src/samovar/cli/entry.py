"""How a command starts and ends: environment, signals, errors and exit codes. Knows no command, and imports none before
signals are handled.

Exit codes: 0 done, 1 failure, 2 user error, 75 stopped and resumable, 130 and 143 interrupted.
"""

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from samovar.errors import SamovarError, Stopped
from samovar.signals import StopRequest, end_quietly, how_to_continue

_SPIN_COUNT = "20000"  # about 1 ms; the default exceeds 10 ms on CPUs with a long `pause`; 2000 is 8 % slower


def main() -> None:
    """Run the command that `sys.argv` names, and exit."""
    _limit_openmp_spinning()
    request = StopRequest()
    try:
        with request.interrupting():
            _run()
    except BaseException as error:
        # Libraries turn KeyboardInterrupt into exceptions of their own. A command that still succeeded got it too late.
        if not request.count or (isinstance(error, SystemExit) and not error.code):
            if isinstance(error, Exception) and _is_explained(error):
                sys.exit(1)
            raise
        print(f"interrupted ({request.reason}); {how_to_continue()}", file=sys.stderr)
        sys.exit(request.exit_code)
    finally:
        end_quietly()


def _run() -> None:
    from samovar.cli.app import app  # takes long enough to be interrupted

    try:
        with showing_log():
            app()
    except SamovarError as error:
        if "--debug" in sys.argv[1:]:
            raise
        _print_error(error)
        sys.exit(error.exit_code)


@contextmanager
def showing_log() -> Iterator[None]:
    """While the block runs, print what the library logs to stderr. Handlers that a user's script adds to the root
    logger do not print it again."""
    logger, handler = logging.getLogger("samovar"), _LogLines(logging.INFO)
    level, propagate = logger.level, logger.propagate
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagate


class _LogLines(logging.Handler):
    """Prints each message as it is. It asks for `sys.stderr` each time: while a bar is drawn, rich replaces it to
    print above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        from samovar.cli.output import show_controls

        try:
            print(show_controls(self.format(record)), file=sys.stderr)
        except Exception:
            self.handleError(record)


def _is_explained(error: Exception) -> bool:
    """Whether an error of the user's own code was printed without the frames of libraries."""
    from samovar.cli.failure import print_failure

    return "--debug" not in sys.argv[1:] and print_failure(error)


def _print_error(error: SamovarError) -> None:
    from samovar.cli.output import open_stderr

    console = open_stderr()
    is_stop = isinstance(error, Stopped)
    if not is_stop:
        console.print("error:", style="bold red", end=" ")
    console.print(" ".join([str(error), *(f"({note})" for note in getattr(error, "__notes__", ()))]))
    if is_stop:
        console.print(how_to_continue())


def _limit_openmp_spinning() -> None:
    """OpenMP threads (torch, hash tables) spin while they wait, and keep a core from readers and other trainings.
    OpenMP reads this once, when torch is loaded. A value that the user set is kept."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPIN_COUNT)
