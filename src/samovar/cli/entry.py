"""Where the command line begins and ends: what must be settled before anything loads torch, and what a signal leaves
to say. Knows no commands.
"""

import os
import sys

from samovar.signals import StopRequest, end_quietly, how_to_continue

_SPINS = "20000"  # about 1 ms; the default is over 10 ms on a CPU whose `pause` is long. 2000 is 8 % slower


def main() -> None:
    """The entry point of the command line."""
    _let_waiting_threads_sleep()
    request = StopRequest()
    try:
        with request.interrupting():
            from samovar.cli import app  # takes long enough to be interrupted

            app.main()
    except BaseException as error:
        # Whatever a library made of the interrupt. Who ended well all the same heard it too late.
        if not request.count or (isinstance(error, SystemExit) and not error.code):
            raise
        print(f"interrupted ({request.reason}); {how_to_continue()}", file=sys.stderr)
        sys.exit(request.exit_code)
    finally:
        end_quietly()


def _let_waiting_threads_sleep() -> None:
    """OpenMP's threads, on which torch and hash tables work, spin while they wait, and so keep a core from readers and
    from other trainings. OpenMP reads this once, when torch is loaded; what the user set stays."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
