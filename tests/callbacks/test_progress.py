"""How far a run is: a bar where one can be drawn, log lines elsewhere."""

import io
import logging

import pytest
from rich.console import Console

from samovar.callbacks import Progress
from samovar.runner import Loader, MinibatchWorkerPool, Run, Runner
from samovar.testing.callback import make_learner, make_uris


def run_with(progress: Progress, next_uri: int = 0) -> None:
    learner, uris = make_learner(), make_uris()
    run = Run(learner)
    run.next_uri = next_uri
    with progress, Loader() as loader:
        Runner(MinibatchWorkerPool(learner), loader, [progress]).run(run, uris)


def test_without_a_terminal_there_are_log_lines(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "samovar")
    file = io.StringIO()
    seconds = iter(range(0, 10**6, 11))
    run_with(Progress(5, lambda: 7.0, Console(file=file), lambda: float(next(seconds))), next_uri=3)
    assert file.getvalue() == ""
    assert {record.levelname for record in caplog.records} == {"INFO"}
    first, *lines = [record.getMessage() for record in caplog.records]
    assert first == "continuing at URI 3"
    assert len(lines) == 2
    assert lines[-1].startswith("hour 4 (URI 5 of 5): ")
    assert lines[-1].endswith("snapshot 7 s ago")


def test_a_short_run_logs_only_its_end(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "samovar")
    run_with(Progress(5, console=Console(file=io.StringIO()), clock=lambda: 0.0))
    assert len(caplog.records) == 1


def test_on_a_terminal_there_is_a_bar_and_no_line(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "samovar")
    file = io.StringIO()
    run_with(Progress(5, console=Console(file=file, force_terminal=True, width=120)))
    assert "examples/s" in file.getvalue()
    assert caplog.records == []
