"""How the progress of brewing is shown."""

import io
from queue import Queue

import pytest
from rich.console import Console

from samovar.brewing.progress import Progress, State
from samovar.cli.output import BarView, LineView, describe_progress, follow, make_bars, show_progress


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


def test_a_log_gets_plain_lines() -> None:
    file = io.StringIO()
    view = LineView(Console(file=file, soft_wrap=True))
    view.show(SORTING)
    view.show(WRITING)
    assert [line.partition(" ")[2] for line in file.getvalue().splitlines()] == [
        "sorting: 50 %",
        "writing: 10 of 20 rows",
    ]
    assert "\x1b" not in file.getvalue()


def test_a_short_brew_leaves_no_line_in_a_log() -> None:
    file = io.StringIO()
    with show_progress(Progress(), Console(file=file, soft_wrap=True)):
        pass
    assert file.getvalue() == ""


def test_a_terminal_gets_a_bar_for_each_phase() -> None:
    file = io.StringIO()
    console = Console(file=file, force_terminal=True, width=120, color_system=None)
    with make_bars(console, "{task.fields[amount]}") as bars:
        view = BarView(bars)
        for state, amount in ((SORTING, "50 %"), (WRITING, "10 of 20 rows")):
            view.show(state)
            bars.refresh()
            last = file.getvalue().splitlines()[-1]
            assert state.phase in last
            assert amount in last


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
    while watcher.states.get(timeout=60) != expected:
        pass
