"""Shows how far a run is: a bar on a terminal or in a notebook, else a log line every few seconds. Changes nothing."""

import logging
import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from samovar.notebook import can_draw
from samovar.runner import Callback, Run

logger = logging.getLogger(__name__)

_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.2


class Progress(Callback):
    """Shows the hour or epoch, examples per second, loss, time left, and the age of the snapshot.

    It draws a bar on a terminal, and in a notebook with ipywidgets, while its `with` block runs. Elsewhere it logs a
    line every ten seconds and one at the end, with level INFO.

    Args:
        num_uris: How many URIs the run has; None if it has no last one.
        snapshot_age: Returns the age of the newest snapshot in seconds; None shows no age.
        console: Where to draw the bar; by default on standard error.
        clock: Seconds that only increase.

    Example:
        >>> with Progress(uris.count) as progress:
        ...     Runner(pool, loader, [progress]).run(run, uris)
    """

    def __init__(
        self,
        num_uris: int | None,
        snapshot_age: Callable[[], float] | None = None,
        console: Console | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._num_uris = num_uris
        self._snapshot_age = snapshot_age
        self._console = console or Console(stderr=True, highlight=False, soft_wrap=True)
        self._clock = clock
        self._bar: Bar | None = None
        self._began_at = self._shown_at = clock()
        self._examples_before = 0

    def __enter__(self) -> Self:
        if can_draw(self._console):
            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}")
            # In a notebook, a thread that draws would catch what the cell prints meanwhile.
            is_terminal = not self._console.is_jupyter
            self._bar = Bar(
                *columns,
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
                auto_refresh=is_terminal,
                redirect_stdout=is_terminal,
                redirect_stderr=is_terminal,
            )
            self._bar.start()
            self._bar.add_task("starting", total=self._num_uris, facts="")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def on_run_begin(self, run: Run) -> None:
        self._began_at = self._clock()
        self._examples_before = run.num_examples
        if run.next_uri > 0:
            logger.info("continuing at URI %d", run.next_uri)

    def on_batch_end(self, run: Run) -> None:
        if self._bar is not None and self._clock() - self._shown_at > _BAR_SECONDS:
            self._update_bar(run)

    def on_uri_end(self, run: Run) -> None:
        if self._bar is not None:
            self._update_bar(run)
        elif self._clock() - self._shown_at >= _LINE_SECONDS or run.next_uri == self._num_uris:
            self._log_line(run)

    def _update_bar(self, run: Run) -> None:
        assert self._bar is not None
        assert run.uri is not None
        self._shown_at = self._clock()
        self._bar.update(
            self._bar.task_ids[0],
            completed=run.next_uri,
            description=run.uri.name,
            facts=self._facts(run),
            refresh=not self._bar.live.auto_refresh,
        )

    def _log_line(self, run: Run) -> None:
        assert run.uri is not None
        self._shown_at = self._clock()
        of = f" of {self._num_uris}" if self._num_uris is not None else ""
        logger.info("%s (URI %d%s): %s", run.uri.name, run.next_uri, of, self._facts(run))

    def _facts(self, run: Run) -> str:
        seconds = max(self._clock() - self._began_at, 1e-9)
        facts = [f"{(run.num_examples - self._examples_before) / seconds:,.0f} examples/s"]
        if run.mean_loss is not None:
            facts.append(f"loss {run.mean_loss:.5f}")
        if self._snapshot_age is not None:
            facts.append(f"snapshot {self._snapshot_age():.0f} s ago")
        return ", ".join(facts)
