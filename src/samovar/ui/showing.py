"""How values look on a page: numbers, sizes, times, links. Knows no page."""

import json
import math
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

from markupsafe import Markup, escape
from rich.filesize import decimal

from samovar.config import MISSING, show_value

_LONGEST = 80
_NOTHING = "\N{EN DASH}"
_NONE = Markup(f'<span class="none">{_NOTHING}</span>')


def show_number(value: Any) -> str:
    """As `ls` shows it: five digits of a float."""
    return f"{value:.5g}" if isinstance(value, float) else show_value(value)


def show_cell(value: Any) -> Markup:
    """A value in a table; a long one is cut, and whole in its title."""
    if value is MISSING or value is None:
        return _NONE
    text = show_number(value)
    if isinstance(value, float) and text != repr(value):
        return Markup(f'<span title="{escape(repr(value))}">{escape(text)}</span>')
    if len(text) > _LONGEST:
        return Markup(f'<span title="{escape(text[:2000])}">{escape(text[: _LONGEST - 1])}…</span>')
    return escape(text)


def is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def show_size(value: int) -> Markup:
    return Markup(f'<span title="{value:,} bytes">{escape(decimal(value))}</span>')


def show_count(value: Any) -> str:
    return f"{value:,}" if is_number(value) else show_cell(value)


def show_seconds(value: float | None) -> str:
    """A span of time in its largest unit."""
    if value is None or not math.isfinite(value):
        return _NOTHING
    for size, unit in ((86400.0 * 2, "d"), (3600.0 * 2, "h"), (120.0, "min")):
        if value >= size:
            return f"{value / {'d': 86400, 'h': 3600, 'min': 60}[unit]:.0f} {unit}"
    return f"{value:.0f} s" if value >= 10 else f"{value:.2g} s"


def show_time(moment: Any) -> Markup:
    """A moment: exact here, and relative, with the exact one on hover, once the page's script has run."""
    if moment is None or moment is MISSING:
        return _NONE
    try:
        when = datetime.fromtimestamp(moment, UTC) if is_number(moment) else datetime.fromisoformat(str(moment))
    except (ValueError, OverflowError, OSError):
        return escape(str(moment))
    when = when.astimezone(UTC) if when.tzinfo is not None else when.replace(tzinfo=UTC)
    exact = when.strftime("%Y-%m-%d %H:%M:%S UTC")
    return Markup(f'<time datetime="{when.isoformat(timespec="seconds")}" title="{exact}">{exact}</time>')


def show_state(state: Any, detail: str = "") -> Markup:
    """A state as a colored mark and a word: the color alone never says it."""
    word = escape(str(state))
    return Markup(f'<span class="state {word.replace(" ", "-")}"{_title(detail)}>{word}</span>')


def _title(text: str) -> str:
    return f' title="{escape(text)}"' if text else ""


def link_run(path: Any, page: str = "run") -> str:
    """The address of a page about a run; "." is the folder itself."""
    return f"/{page}/{quote('' if str(path) == '.' else str(path), errors='replace')}"


def link(page: str, *repeated: tuple[str, Any], **parameters: Any) -> str:
    """An address with parameters; empty ones are left out, lists are repeated."""
    pairs = [*repeated]
    for name, value in parameters.items():
        pairs += [(name, each) for each in (value if isinstance(value, list | tuple) else [value])]
    kept = [(name, str(value)) for name, value in pairs if value not in (None, "", False)]
    return page + (f"?{urlencode(kept, errors='replace')}" if kept else "")


def below(path: str, root: Path) -> str | None:
    """An absolute path as one below the folder of the page; None if it is elsewhere."""
    try:
        return str(Path(path).relative_to(root))
    except ValueError:
        return None


def to_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


FILTERS = {
    "cell": show_cell,
    "size": show_size,
    "count": show_count,
    "seconds": show_seconds,
    "time": show_time,
    "state": show_state,
    "json": to_json,
    "run_link": link_run,
}
