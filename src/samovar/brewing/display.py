"""How the progress of a brew is shown: a bar on a terminal or in a notebook, else a log line every ten seconds."""

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from html import escape
from typing import Any, Protocol

from rich.console import Console
from rich.filesize import decimal
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

from samovar.brewing.progress import Progress, State

_log = logging.getLogger(__name__)
BAR_SECONDS = 0.1
NOTEBOOK_SECONDS = 0.5
LINE_SECONDS = 10.0


@contextmanager
def show_progress(progress: Progress, console: Console | None = None) -> Iterator[None]:
    """While the block runs, show its progress. The console is stderr unless given."""
    console = console or Console(stderr=True)
    if console.is_jupyter:
        with NotebookView() as notebook, follow(progress, notebook):
            yield
    elif console.is_terminal:
        with make_bars(console) as bars, follow(progress, BarView(bars)):
            yield
    else:
        with follow(progress, LineView()):
            yield


class View(Protocol):
    seconds: float
    """Between two updates."""

    def show(self, state: State) -> None: ...


class BarView:
    """One task per phase, so that each phase has its own clock. The spinner moves even when nothing can be counted."""

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
        self._bars.update(self._task, completed=state.done, total=state.total, amount=describe_progress(state))


class LineView:
    """For logs: one line every ten seconds, so a shorter brew writes none."""

    def __init__(self) -> None:
        self.seconds = LINE_SECONDS
        self._start = time.monotonic()

    def show(self, state: State) -> None:
        elapsed = timedelta(seconds=int(time.monotonic() - self._start))
        _log.info("%s %s", elapsed, _describe(state))


class NotebookView:
    """One output of the cell, changed in place and emptied at the end. A brew that is over at once makes none."""

    def __init__(self) -> None:
        self.seconds = NOTEBOOK_SECONDS
        self._output: Any = None

    def __enter__(self) -> "NotebookView":
        return self

    def __exit__(self, *_: object) -> None:
        if self._output is not None:
            self._output.update({"text/plain": "", "text/html": ""}, raw=True)

    def show(self, state: State) -> None:
        from IPython.display import display

        value = "" if state.total is None else f' value="{state.done}" max="{state.total}"'
        text = _describe(state)
        shown = {"text/plain": text, "text/html": f"<progress{value}></progress> {escape(text)}"}
        if self._output is None:
            self._output = display(shown, raw=True, display_id=True)  # type: ignore[no-untyped-call]  # IPython has none
        else:
            self._output.update(shown, raw=True)


@contextmanager
def follow(progress: Progress, view: View) -> Iterator[None]:
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


def make_bars(console: Console) -> Bars:
    """Spinner, phase, bar, amount and elapsed time; gone when it is over."""
    amount = TextColumn("{task.fields[amount]}")
    columns = SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), amount, TimeElapsedColumn()
    return Bars(*columns, console=console, transient=True)


def _describe(state: State) -> str:
    amount = describe_progress(state)
    return f"{state.phase}{': ' if amount else ''}{amount}"


def describe_progress(state: State) -> str:
    """The amount in words; empty when nothing is counted."""
    if state.unit == "percent":
        return f"{state.done:.0f} %"
    show = decimal if state.unit == "bytes" else "{:,}".format
    if not state.done and state.total is None:
        return ""
    of_total = "" if state.total is None else f" of {show(int(state.total))}"
    return f"{show(int(state.done))}{of_total}{'' if state.unit == 'bytes' else f' {state.unit}'}"
