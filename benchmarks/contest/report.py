"""What a benchmark reports: how fast each contestant was, and whether promises are kept. Measures nothing."""

import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from benchmarks.contest.rounds import Seconds, paired_ratio
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Promise:
    """At least this share of a peer's speed."""

    contestant: str
    peer: str
    least: float
    remark: str = ""
    """Printed beside the measured ratio."""


@dataclass(frozen=True)
class Section:
    """Contestants that did the same work, and the peer that the others are compared with."""

    title: str
    seconds: Seconds
    amount: float
    """How much each of them did, in `unit`."""
    unit: str
    peer: str
    promises: Sequence[Promise] = ()
    is_disturbed: bool = False
    """Other processes used the machine, so nothing is proven."""

    def speed(self, contestant: str) -> str:
        return f"{three_digits(self.amount / statistics.median(self.seconds[contestant]))} {self.unit}/s"

    def ratio(self, contestant: str, peer: str | None = None) -> float:
        return paired_ratio(self.seconds, contestant, peer or self.peer)

    def is_kept(self, promise: Promise) -> bool:
        return not self.is_disturbed and self.ratio(promise.contestant, promise.peer) >= promise.least

    def remarks(self, promise: Promise) -> list[str]:
        return [promise.remark] * bool(promise.remark) + ["other processes used the machine"] * self.is_disturbed


@dataclass(frozen=True)
class Bar:
    """A promise that is not a ratio of two speeds, and what was measured."""

    promise: str
    found: str
    is_kept: bool


@dataclass(frozen=True)
class Report:
    title: str
    sections: Sequence[Section] = ()
    bars: Sequence[Bar] = ()

    @property
    def is_kept(self) -> bool:
        """Every promise."""
        return all(bar.is_kept for bar in (*self.bars, *self._promises()))

    def show(self) -> None:
        console = Console(highlight=False, soft_wrap=True)
        if self.sections:
            console.print(self._table())
        for bar in (*self._promises(), *self.bars):
            verdict = "[green]PASS[/]" if bar.is_kept else "[red]FAIL[/]"
            console.print(f"{verdict} {bar.promise}: {bar.found}")

    def _promises(self) -> Iterator[Bar]:
        for section in self.sections:
            for promise in section.promises:
                text = f"{section.title}: {promise.contestant} at {promise.least:.3g} of {promise.peer}"
                found = three_digits(section.ratio(promise.contestant, promise.peer))
                yield Bar(text, "; ".join([found, *section.remarks(promise)]), section.is_kept(promise))

    def _table(self) -> Table:
        table = Table(title=self.title, title_justify="left")
        table.add_column("contestant")
        table.add_column("speed", justify="right")
        table.add_column("ratio", justify="right")
        for section in self.sections:
            table.add_row(f"[bold]{section.title}[/]")
            for name in section.seconds:
                table.add_row(f"  {name}", section.speed(name), three_digits(section.ratio(name)))
            table.add_section()
        return table


def three_digits(number: float) -> str:
    decimals = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{decimals}f}"
