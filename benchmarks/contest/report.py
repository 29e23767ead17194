"""What a benchmark prints: one table of speeds with ratios, and a line for each promise. Measures nothing."""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.contest.rounds import Seconds, paired_ratio
from rich.console import Console
from rich.table import Table


@dataclass(frozen=True)
class Section:
    """Contestants that did the same work, and the one that the others are compared with."""

    title: str
    seconds: Seconds
    amount: float
    """How much each of them did, in `unit`s."""
    unit: str
    peer: str


@dataclass(frozen=True)
class Bar:
    """A promise, and what was found."""

    promise: str
    found: str
    is_kept: bool


def show(title: str, sections: Sequence[Section], bars: Sequence[Bar] = ()) -> bool:
    """Print all; says whether every promise is kept."""
    console = Console(highlight=False, soft_wrap=True)
    if sections:
        console.print(_table(title, sections))
    for bar in bars:
        verdict = "[green]PASS[/]" if bar.is_kept else "[red]FAIL[/]"
        console.print(f"{verdict} {bar.promise}: {bar.found}")
    return all(bar.is_kept for bar in bars)


def _table(title: str, sections: Iterable[Section]) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("contestant")
    table.add_column("speed", justify="right")
    table.add_column("ratio", justify="right")
    for section in sections:
        table.add_row(f"[bold]{section.title}[/]")
        for name, times in section.seconds.items():
            speed = section.amount / statistics.median(times)
            ratio = paired_ratio(section.seconds, name, section.peer)
            table.add_row(f"  {name}", f"{_three_digits(speed)} {section.unit}/s", _three_digits(ratio))
        table.add_section()
    return table


def _three_digits(number: float) -> str:
    decimals = 2 if number < 10 else 1 if number < 100 else 0
    return f"{number:,.{decimals}f}"
