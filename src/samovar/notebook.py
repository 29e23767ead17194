"""How a notebook shows things: small HTML tables, and whether it can draw a progress bar. Knows no thing to show."""

from collections.abc import Iterable, Sequence
from html import escape
from importlib.util import find_spec
from itertools import islice
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import Console

MAX_ROWS = 20


def html_table(title: str, header: Sequence[str], rows: Iterable[Sequence[Any]], max_rows: int = MAX_ROWS) -> str:
    """A caption and at most `max_rows` rows; every text is escaped."""
    waiting = iter(rows)
    shown = list(islice(waiting, max_rows))
    num_left_out = sum(1 for _ in waiting)
    head = "".join(f"<th>{_text(each)}</th>" for each in header)
    body = "".join(f"<tr>{''.join(f'<td>{_text(each)}</td>' for each in row)}</tr>" for row in shown)
    if num_left_out:
        body += f'<tr><td colspan="{len(header)}">… and {num_left_out:,} more</td></tr>'
    return f"<div>{_text(title)}</div><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _text(value: Any) -> str:
    return escape(str(value))


def can_draw(console: "Console") -> bool:
    """Whether a bar can move there: on a terminal, or in a notebook with ipywidgets, without which rich only warns."""
    return console.is_terminal or (console.is_jupyter and find_spec("ipywidgets") is not None)
