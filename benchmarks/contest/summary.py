"""One table of everything measured, for the terminal and for a page. Measures and runs nothing."""

from collections.abc import Iterator, Mapping
from dataclasses import astuple, dataclass
from pathlib import Path

from benchmarks.contest.report import Promise, Section, three_digits
from benchmarks.contest.result import Result
from rich.markup import escape
from rich.table import Table

from samovar.errors import BadInput

BEGIN = "<!-- written by `make bench`: from here -->"
END = "<!-- written by `make bench`: to here -->"
COLUMNS = ("what was measured", "contestant", "its speed", "limit or peer", "ratio", "promise")
Results = Mapping[str, Result]
"""By name of the benchmark."""


@dataclass(frozen=True)
class Row:
    """One line of the table; `what` is filled only in the first line that it covers."""

    what: str = ""
    contestant: str = ""
    speed: str = ""
    peer: str = ""
    ratio: str = ""
    promise: str = ""


def make_rows(name: str, result: Result) -> Iterator[Row]:
    for report in result.reports:
        yield Row(f"{name}: {report.title}")
        for section in report.sections:
            yield from _section_rows(section)
        for bar in report.bars:
            yield Row("", bar.promise, bar.found, promise=_verdict(bar.is_kept))
    if not result.is_complete:
        yield Row(f"{name}: ended early", promise=_verdict(False))


def _section_rows(section: Section) -> Iterator[Row]:
    """A contestant beside the section's peer, then beside other peers that a promise names."""
    what = section.title
    for contestant in section.seconds:
        promises = {promise.peer: promise for promise in section.promises if promise.contestant == contestant}
        for peer in dict.fromkeys((section.peer, *promises)):
            compared = "" if peer == contestant else peer
            ratio = three_digits(section.ratio(contestant, peer))
            verdict = _judge(section, promises[peer]) if peer in promises else ""
            yield Row(what, contestant, section.speed(contestant), compared, ratio, verdict)
            what = ""


def _judge(section: Section, promise: Promise) -> str:
    verdict = f"{_verdict(section.is_kept(promise))}: {promise.least:.3g} at least"
    return "; ".join([verdict, *section.remarks(promise)])


def _verdict(is_kept: bool) -> str:
    return "PASS" if is_kept else "FAIL"


def to_terminal(results: Results) -> Table:
    table = Table(title="All benchmarks", title_justify="left")
    for column in COLUMNS:
        table.add_column(column, justify="right" if column in ("its speed", "ratio") else "left")
    for name, result in results.items():
        for row in make_rows(name, result):
            style = "red" if row.promise.startswith("FAIL") else "bold" if not row.contestant else None
            table.add_row(*map(escape, astuple(row)), style=style)
        table.add_section()
    return table


def to_markdown(results: Results) -> str:
    """With machine, versions and dates."""
    lines = [*_describe_machines(results), "", f"| {' | '.join(COLUMNS)} |", "|---|---|--:|---|--:|---|"]
    for name, result in results.items():
        for row in make_rows(name, result):
            what = f"**{row.what}**" if row.what and not row.contestant else row.what
            cells = (what, *astuple(row)[1:])
            lines.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    return "\n".join(lines)


def _describe_machines(results: Results) -> Iterator[str]:
    """Benchmarks that ran on the same machine with the same versions share a line."""
    groups: dict[str, list[str]] = {}
    for name, result in results.items():
        versions = ", ".join(f"{package} {version}" for package, version in result.machine.versions.items())
        when = f"{result.began:%Y-%m-%d %H:%M} UTC"
        remark = ", quick: proves no speed" if result.is_quick else ""
        groups.setdefault(f"{result.machine}; {versions}", []).append(f"{name} ({when}{remark})")
    for machine, names in groups.items():
        yield f"- {', '.join(names)}: {machine}"


def write_into(page: Path, text: str, markers: tuple[str, str] = (BEGIN, END)) -> None:
    """Replace the text between the two markers of a page."""
    before, after = find_place(page, markers)
    page.write_text(f"{before}{markers[0]}\n\n{text}\n\n{markers[1]}{after}")


def find_place(page: Path, markers: tuple[str, str] = (BEGIN, END)) -> tuple[str, str]:
    """The text before and after the two markers."""
    if not page.is_file():
        raise BadInput(f"{page}: no such page. It would receive the table")
    before, begin, rest = page.read_text().partition(markers[0])
    _, end, after = rest.partition(markers[1])
    if not (begin and end):
        raise BadInput(
            f"{page}: the markers {' and '.join(markers)} are missing. Add both, in this order, where the table belongs"
        )
    return before, after
