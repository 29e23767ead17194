"""How the progress of brewing is shown."""

import io
import logging
from queue import Queue

import nbformat
import pytest
from nbclient import NotebookClient
from rich.console import Console

from samovar.brewing.display import BarView, LineView, describe_progress, follow, make_bars, show_progress
from samovar.brewing.progress import Progress, State


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State("scanning sources", 3 << 20, 5 << 20, "bytes"), "3.1 MB of 5.2 MB"),
        (State("sorting"), ""),
        (State("sorting", 41.6, 100, "percent"), "42 %"),
        (State("sorting", 12345), "12,345 rows"),
        (State("writing", 5000, 12345), "5,000 of 12,345 rows"),
    ],
)
def test_progress_in_words(state: State, text: str) -> None:
    assert describe_progress(state) == text


SORTING = State("sorting", 50.0, 100, "percent")
WRITING = State("writing", 10, 20)


def test_a_log_gets_plain_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "samovar")
    view = LineView()
    view.show(SORTING)
    view.show(WRITING)
    assert [record.getMessage().partition(" ")[2] for record in caplog.records] == [
        "sorting: 50 %",
        "writing: 10 of 20 rows",
    ]


def test_a_short_brew_leaves_no_line_in_a_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "samovar")
    file = io.StringIO()
    with show_progress(Progress(), Console(file=file, soft_wrap=True)):
        pass
    assert file.getvalue() == ""
    assert caplog.records == []


def test_a_terminal_gets_a_bar_for_each_phase() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    with make_bars(console) as bars:
        view = BarView(bars)
        for state, amount in ((SORTING, "50 %"), (WRITING, "10 of 20 rows")):
            view.show(state)
            bars.refresh()
            last = file.getvalue().splitlines()[-1]
            assert state.phase in last
            assert amount in last


_VIEW = """
from samovar.brewing.display import NotebookView
from samovar.brewing.progress import State
NotebookView().show(State("sorting", 50.0, 100, "percent"))
"""
_BREW = """
import time
from samovar.brewing.display import show_progress
from samovar.brewing.progress import Progress
with show_progress(Progress()):
    time.sleep({seconds})
"""


def test_a_notebook_gets_one_output_per_brew_that_is_empty_at_the_end() -> None:
    sources = [_VIEW, _BREW.format(seconds=0), _BREW.format(seconds=1.2)]
    cells = [nbformat.v4.new_code_cell(source) for source in sources]  # type: ignore[no-untyped-call]  # it has none
    notebook = nbformat.v4.new_notebook(cells=cells)  # type: ignore[no-untyped-call]
    NotebookClient(notebook, kernel_name="python3").execute()
    bar = '<progress value="50.0" max="100"></progress> sorting: 50 %'
    assert [[output["data"] for output in cell["outputs"]] for cell in cells] == [
        [{"text/plain": "sorting: 50 %", "text/html": bar}],
        [],
        [{"text/plain": "", "text/html": ""}],
    ]


class Watcher:
    """A view that records what it is shown."""

    seconds = 0.001

    def __init__(self) -> None:
        self.states: Queue[State] = Queue()

    def show(self, state: State) -> None:
        self.states.put(state)


def test_a_view_sees_each_phase_while_it_lasts() -> None:
    progress, watcher = Progress(), Watcher()
    with follow(progress, watcher):
        progress.begin("sorting", 100, "percent", lambda: 50.0)
        wait_for(watcher, SORTING)
        progress.begin("writing", 20)
        progress.reach(10)
        wait_for(watcher, WRITING)


def wait_for(watcher: Watcher, expected: State) -> None:
    while watcher.states.get(timeout=600) != expected:
        pass
