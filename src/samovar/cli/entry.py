"""How a command starts and ends: environment, signals, errors and exit codes. Knows no command, and imports none before
signals are handled.

Exit codes: 0 done, 1 failure, 2 user error, 75 stopped and resumable, 130 and 143 interrupted.
"""

import os
import sys

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
            raise
        print(f"interrupted ({request.reason}); {how_to_continue()}", file=sys.stderr)
        sys.exit(request.exit_code)
    finally:
        end_quietly()


def _run() -> None:
    from samovar.cli.app import app  # takes long enough to be interrupted

    try:
        app()
    except SamovarError as error:
        if "--debug" in sys.argv[1:]:
            raise
        _print_error(error)
        sys.exit(error.exit_code)


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
