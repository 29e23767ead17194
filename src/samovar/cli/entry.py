"""Where the command line begins and ends: what a signal leaves to say, however early it comes. Knows no commands."""

import sys

from samovar.signals import StopRequest, end_quietly, how_to_go_on


def main() -> None:
    """The entry point of the command line."""
    request = StopRequest()
    try:
        with request.interrupting():
            from samovar.cli import app  # takes long enough to be interrupted

            app.main()
    except BaseException as error:
        # Whatever a library made of the interrupt. Who ended well all the same heard it too late.
        if not request.count or (isinstance(error, SystemExit) and not error.code):
            raise
        print(f"interrupted ({request.reason}); {how_to_go_on()}", file=sys.stderr)
        sys.exit(request.exit_code)
    finally:
        end_quietly()
