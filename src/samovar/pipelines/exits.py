"""A user's code that ends the process: to whoever looks at the exit code, `sys.exit(0)` is a result that is done."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from samovar.errors import SamovarError


@contextmanager
def no_exit(script: Path, what: str) -> Iterator[None]:
    """While the block runs, `SystemExit` is an error like any other."""
    try:
        yield
    except SystemExit as end:
        code = "" if end.code is None else repr(end.code)
        raise SamovarError(
            f"{script}: {what} called sys.exit({code}); expected it to go through to its end, or to raise an error: "
            "leave the call out"
        ) from end
