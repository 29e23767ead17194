"""Errors in the user's own code, a script or its modules, shown without the frames of libraries. Knows no command."""

import sys
import traceback
from pathlib import Path

_OURS = Path(__file__).parents[1]  # the package
_STANDARD_LIBRARY = Path(traceback.__file__).parent
_INSTALLED = {"site-packages", "dist-packages"}


def print_failure(error: Exception) -> bool:
    """Print an error and the lines of the user's code that led to it; False if none did, and nothing is printed."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if _is_users(frame.filename)]
    if not frames:
        return False
    notes = error.__dict__.pop("__notes__", [])  # else they are printed with the error
    where = "".join(f" {note}" for note in notes)
    print(*traceback.format_list(frames), *traceback.format_exception_only(error), sep="", end="", file=sys.stderr)
    print(f"error: your code failed{where}; `samovar --debug …` shows the whole traceback", file=sys.stderr)
    return True


def _is_users(file: str) -> bool:
    """Whether a file is neither ours nor a library's. The program itself, and code without a file, do not count."""
    path = Path(file).absolute()
    if path == Path(sys.argv[0]).absolute() or not path.is_file() or _INSTALLED & set(path.parts):
        return False
    return _OURS not in path.parents and _STANDARD_LIBRARY not in path.parents
