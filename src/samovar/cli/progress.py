"""Shows how far a brewing is: a bar in a terminal, else a line now and then. Counts nothing itself."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from samovar.brewing.progress import Progress, State
from samovar.cli.sizes import readable

BAR_SECONDS = 0.1
LINE_SECONDS = 10.0


class View(Protocol):
    seconds: float
    """From one look to the next."""

    def show(self, state: State) -> None: ...


class BarView:
    """One task a phase, so that each has its own clock. The spinner turns also while nothing can be counted."""

    def __init__(self, bars: Bars) -> None:
        self.seconds = BAR_SECONDS
        self._bars = bars
        self._task = bars.add_task("starting", total=None, amount="")
        self._phase = "starting"

    def show(self, state: State) -> None:
        if state.phase != self._phase:
            self._bars.remove_task(self._task)
            self._task = self._bars.add_task(state.phase, total=None, amount="")
            self._phase = state.phase
        self._bars.update(self._task, completed=state.done, total=state.total, amount=describe(state))


class LineView:
    """For logs: a line every ten seconds, and so none of a brewing that is done before."""

    def __init__(self, console: Console) -> None:
        self.seconds = LINE_SECONDS
        self._console = console
        self._start = time.monotonic()

    def show(self, state: State) -> None:
        elapsed = timedelta(seconds=int(time.monotonic() - self._start))
        amount = describe(state)
        self._console.print(f"{elapsed} {state.phase}{': ' if amount else ''}{amount}", markup=False)


def describe(state: State) -> str:
    """The amount in words; nothing where nothing is counted."""
    if state.unit == "percent":
        return f"{state.done:.0f} %"
    show = readable if state.unit == "bytes" else "{:,}".format
    if not state.done and state.total is None:
        return ""
    of_total = "" if state.total is None else f" of {show(int(state.total))}"
    return f"{show(int(state.done))}{of_total}{' rows' if state.unit == 'rows' else ''}"


@contextmanager
def shown(progress: Progress, console: Console) -> Iterator[None]:
    """While the block runs, its progress is seen."""
    if not console.is_terminal:
        with followed(progress, LineView(console)):
            yield
        return
    with make_bars(console) as bars, followed(progress, BarView(bars)):
        yield


def make_bars(console: Console) -> Bars:
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[amount]}")
    return Bars(*columns, TimeElapsedColumn(), console=console, transient=True)


@contextmanager
def followed(progress: Progress, view: View) -> Iterator[None]:
    """While the block runs, the view is shown the state again and again."""
    is_over = threading.Event()

    def follow() -> None:
        while not is_over.wait(view.seconds):
            view.show(progress.state)

    thread = threading.Thread(target=follow, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        is_over.set()
        thread.join()
