"""Files that users name: tables, texts and pictures about results, outside of any store. Each appears whole, or not at
all. Knows no results.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from samovar.errors import AlreadyExists, BadInput, StoreError
from samovar.store.disk import publish

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_FORMATS = ("png", "svg", "pdf")


@contextmanager
def writing(path: Path | str, *, replace: bool = True) -> Iterator[Path]:
    """Give a scratch name to write to. The file takes the name `path` when the block ends.

    A pipe or a device, such as /dev/stdout, is written to directly.

    Raises:
        AlreadyExists: The file exists and must not be replaced.
        BadInput: It cannot be written.
    """
    path = Path(path)
    if not replace and path.exists():
        raise AlreadyExists(f"{path} already exists, and an export overwrites nothing. Choose another name")
    try:
        if not path.parent.is_dir():
            raise BadInput(f"cannot write {path}: the folder {path.parent} does not exist")
        if path.is_dir():
            raise BadInput(f"cannot write {path}: it is a folder")
        if path.exists() and not path.is_file():
            yield path
            return
        with publish(path.resolve(), replace=replace) as file:  # resolved: a link stays, what it names is replaced
            yield file.path
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}") from None
    except StoreError as error:
        raise BadInput(str(error)) from None


def save_text(path: Path | str, text: str) -> None:
    """Write a text file; an old one is replaced."""
    with writing(path) as scratch:
        scratch.write_text(text, encoding="utf-8")


def save_figure(figure: "Figure", path: Path | str, format_name: str | None = None) -> None:
    """Write a figure as png, svg or pdf, by default as the suffix says; an old one is replaced."""
    import matplotlib

    chosen = format_name or Path(path).suffix.removeprefix(".").lower()
    if chosen not in _FORMATS:
        raise BadInput(f"{path}: the name must end with .png, .svg or .pdf, which names the format")
    # Without these, a file holds the time, a version and random names.
    metadata = {"png": {"Software": None}, "svg": {"Date": None}, "pdf": {"CreationDate": None}}[chosen]
    with matplotlib.rc_context({"svg.hashsalt": "samovar"}), writing(path) as scratch:
        figure.savefig(scratch, format=chosen, metadata=metadata, dpi=100)
