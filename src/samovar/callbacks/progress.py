"""Shows how far a run is: a bar on a terminal, a plain line every few seconds elsewhere. Changes nothing."""

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from samovar.runner import Callback, Run

_LINE_SECONDS = 10.0
_BAR_SECONDS = 0.2


class Progress(Callback):
    """Shows the hour or epoch, examples per second, loss, time left, and the age of the snapshot.

    The bar is drawn while its `with` block runs.

    Args:
        num_uris: How many URIs the run has; None if it has no last one.
        snapshot_age: Returns the age of the newest snapshot in seconds; None shows no age.
        console: Where to show it; by default standard error.
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
        if self._console.is_terminal:
            columns = TextColumn("{task.description}"), BarColumn(), TextColumn("{task.fields[facts]}")
            self._bar = Bar(*columns, TimeRemainingColumn(), console=self._console, transient=True)
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
            self._console.print(f"continuing at URI {run.next_uri}", markup=False)

    def on_batch_end(self, run: Run) -> None:
        if self._bar is not None and self._clock() - self._shown_at > _BAR_SECONDS:
            self._update_bar(run)

    def on_uri_end(self, run: Run) -> None:
        if self._bar is not None:
            self._update_bar(run)
        elif self._clock() - self._shown_at >= _LINE_SECONDS or run.next_uri == self._num_uris:
            self._print_line(run)

    def _update_bar(self, run: Run) -> None:
        assert self._bar is not None
        assert run.uri is not None
        self._shown_at = self._clock()
        self._bar.update(
            self._bar.task_ids[0], completed=run.next_uri, description=run.uri.name, facts=self._facts(run)
        )

    def _print_line(self, run: Run) -> None:
        assert run.uri is not None
        self._shown_at = self._clock()
        of = f" of {self._num_uris}" if self._num_uris is not None else ""
        self._console.print(f"{run.uri.name} (URI {run.next_uri}{of}): {self._facts(run)}", markup=False)

    def _facts(self, run: Run) -> str:
        seconds = max(self._clock() - self._began_at, 1e-9)
        facts = [f"{(run.num_examples - self._examples_before) / seconds:,.0f} examples/s"]
        if run.mean_loss is not None:
            facts.append(f"loss {run.mean_loss:.5f}")
        if self._snapshot_age is not None:
            facts.append(f"snapshot {self._snapshot_age():.0f} s ago")
        return ", ".join(facts)
