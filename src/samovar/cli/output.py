"""What commands print: tables or CSV on stdout, one JSON document with `--json`, notes and progress on stderr. Knows no
command.

Text is printed verbatim: `[red]` sets no color and `:tea:` draws no emoji. Only a terminal gets colors, unless NO_COLOR
is set.
"""

import ctypes
import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console
from rich.filesize import decimal

from samovar.config.values import MISSING
from samovar.errors import BadInput

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

    from samovar.brewing.progress import Progress, State

_VERBATIM: dict[str, Any] = {"markup": False, "emoji": False, "highlight": False, "soft_wrap": True}
_PIPED_WIDTH = 200  # a file has no width, and a wrapped table cannot be searched


def open_console() -> Console:
    return Console(**_VERBATIM, width=None if sys.stdout.isatty() else _PIPED_WIDTH)


def open_stderr() -> Console:
    return Console(**_VERBATIM, stderr=True)


def print_notes(notes: Iterable[str], console: Console | None = None) -> None:
    console = console or open_stderr()
    for note in notes:
        console.print(note)


def count_of(number: int, noun: str, ending: str = "s") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {noun}{'' if number == 1 else ending}"


# Tables and CSV


def print_table(
    *,
    to_csv: Callable[[], str],
    to_json: Callable[[], Any],
    show: Callable[[], None],
    csv_file: Path | None,
    as_json: bool,
    is_drawn: bool = False,
) -> None:
    """Print rows in the form that was asked for, else `show` them on a terminal and print CSV to a pipe.

    `is_drawn` means that they went into a picture, and need not be printed."""
    if csv_file is not None:
        save_text(csv_file, to_csv())
    if as_json:
        print_json(to_json())
    elif csv_file is not None or is_drawn:
        return
    elif sys.stdout.isatty():
        show()
    else:
        print(to_csv(), end="")


def save_text(path: Path, text: str) -> None:
    with writing_to(path):
        path.write_text(text)


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """A path that cannot be written is a user error."""
    try:
        yield
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror}") from None


# JSON


def print_json(answer: Any) -> None:
    """Numbers stay numbers, 64-bit ids included; NaN and infinities, which JSON does not have, become null."""
    print(json.dumps(_plain(answer), indent=2, ensure_ascii=False, allow_nan=False))


def _plain(value: Any) -> Any:
    """A missing value is left out of an object, and null in a list."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not MISSING}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is MISSING:
        return None
    return value if isinstance(value, str | int | None) else str(value)


@contextmanager
def reserve_stdout(is_reserved: bool) -> Iterator[None]:
    """While the block runs, send to stderr what scripts, libraries and child processes print, so that stdout holds only
    the JSON document."""
    if not is_reserved:
        yield
        return
    with redirect_stdout(sys.stderr), _redirect_descriptor(1, 2):
        yield


@contextmanager
def _redirect_descriptor(descriptor: int, target: int) -> Iterator[None]:
    """For C code and child processes, which ignore `sys.stdout`."""
    kept = os.dup(descriptor)
    os.dup2(target, descriptor)
    try:
        yield
    finally:
        ctypes.CDLL(None).fflush(None)  # C code may still hold text in its buffers
        os.dup2(kept, descriptor)
        os.close(kept)


# Progress of brewing

BAR_SECONDS = 0.1
LINE_SECONDS = 10.0


@contextmanager
def show_progress(progress: "Progress", console: Console) -> Iterator[None]:
    """While the block runs, show its progress: a bar on a terminal, else an occasional line."""
    if not console.is_terminal:
        with follow(progress, LineView(console)):
            yield
        return
    with make_bars(console, "{task.fields[amount]}") as bars, follow(progress, BarView(bars)):
        yield


class View(Protocol):
    seconds: float
    """Between two updates."""

    def show(self, state: "State") -> None: ...


class BarView:
    """One task per phase, so that each phase has its own clock. The spinner moves even when nothing can be counted."""

    def __init__(self, bars: "Bars") -> None:
        self.seconds = BAR_SECONDS
        self._bars = bars
        self._task = bars.add_task("starting", total=None, amount="")
        self._phase = "starting"

    def show(self, state: "State") -> None:
        if state.phase != self._phase:
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(state.phase, total=None, amount="")
            self._phase = state.phase
        self._bars.update(self._task, completed=state.done, total=state.total, amount=describe_progress(state))


class LineView:
    """For logs: one line every ten seconds, so a shorter brew prints none."""

    def __init__(self, console: Console) -> None:
        self.seconds = LINE_SECONDS
        self._console = console
        self._start = time.monotonic()

    def show(self, state: "State") -> None:
        elapsed = timedelta(seconds=int(time.monotonic() - self._start))
        amount = describe_progress(state)
        self._console.print(f"{elapsed} {state.phase}{': ' if amount else ''}{amount}", markup=False)


@contextmanager
def follow(progress: "Progress", view: View) -> Iterator[None]:
    """While the block runs, show its state to the view at regular intervals."""
    is_over = threading.Event()

    def look() -> None:
        while not is_over.wait(view.seconds):
            view.show(progress.state)

    thread = threading.Thread(target=look, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()


def describe_progress(state: "State") -> str:
    """The amount in words; empty when nothing is counted."""
    if state.unit == "percent":
        return f"{state.done:.0f} %"
    show = decimal if state.unit == "bytes" else "{:,}".format
    if not state.done and state.total is None:
        return ""
    of_total = "" if state.total is None else f" of {show(int(state.total))}"
    return f"{show(int(state.done))}{of_total}{' rows' if state.unit == 'rows' else ''}"


def make_bars(console: Console, amount: str) -> "Bars":
    """Spinner, description, bar, `amount` (a format of the task) and elapsed time; gone when it is over."""
    from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn(amount), TimeElapsedColumn()
    return Progress(*columns, console=console, transient=True)
