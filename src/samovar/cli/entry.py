"""Where the command line begins: what must be settled before anything loads torch. Knows no commands."""

import os

from samovar.cli import app

_SPINS = "20000"  # about 1 ms; the default is over 10 ms on a CPU whose `pause` is long. 2000 was 10 % slower


def main() -> None:
    """The entry point of the command line."""
    _let_waiting_threads_sleep()
    app.main()


def _let_waiting_threads_sleep() -> None:
    """Torch's OpenMP threads spin while they wait, and so keep a core from the threads of hash tables and readers:
    a step took up to twice as long. OpenMP reads this once, when torch is loaded; what the user set stays."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", _SPINS)
