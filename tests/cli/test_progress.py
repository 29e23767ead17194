import io
import time

import pytest
from rich.console import Console

from samovar.brew.progress import Progress, State
from samovar.cli import progress as view
from samovar.cli.progress import describe, shown


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (State("fingerprinting sources", 3 << 20, 5 << 20, "bytes"), "3.0 MiB of 5.0 MiB"),
        (State("learning types"), ""),
        (State("sorting", 41.6, 100, "percent"), "42 %"),
        (State("sorting", 12345), "12,345 rows"),
        (State("writing", 5000, 12345), "5,000 of 12,345 rows"),
    ],
)
def test_amounts_in_words(state: State, text: str) -> None:
    assert describe(state) == text


def test_a_log_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "LINE_SECONDS", 0.01)
    text = watch(Console(file=io.StringIO(), soft_wrap=True))
    assert "0:00:00 sorting: 50 %\n" in text
    assert "0:00:00 writing: 10 of 20 rows\n" in text
    assert "\x1b" not in text


def test_a_short_brewing_leaves_no_line_in_a_log() -> None:
    assert watch(Console(file=io.StringIO(), soft_wrap=True)) == ""


def test_a_terminal_gets_a_bar_for_each_phase(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "BAR_SECONDS", 0.01)
    text = watch(Console(file=io.StringIO(), force_terminal=True, width=120, color_system=None))
    assert "sorting" in text
    assert "50 %" in text
    assert "10 of 20 rows" in text


def watch(console: Console) -> str:
    progress = Progress()
    with shown(progress, console):
        progress.begin("sorting", 100, "percent", lambda: 50.0)
        time.sleep(0.3)
        progress.begin("writing", 20)
        progress.reach(10)
        time.sleep(0.3)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()
