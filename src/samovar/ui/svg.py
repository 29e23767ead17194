"""Pictures as SVG: curves, bars, reliability, lineage. Colors are classes of the style sheet, which knows light
and dark. Reads nothing.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

from markupsafe import Markup, escape

NUM_COLORS = 10
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 10, 8, 22
_CHARACTER = 6
"""About how wide a character of a tick is."""
_WIDEST_BAR = 44.0


@dataclass(frozen=True)
class Scale:
    """Values onto a stretch of pixels."""

    low: float
    high: float
    first: float
    last: float
    is_log: bool = False

    def __call__(self, value: float) -> float:
        low, high, value = self._scaled(self.low), self._scaled(self.high), self._scaled(value)
        share = (value - low) / (high - low) if high > low else 0.5
        return round(self.first + share * (self.last - self.first), 2)

    def _scaled(self, value: float) -> float:
        return math.log10(value) if self.is_log else value

    def ticks(self, count: int = 5) -> list[float]:
        """Round numbers within it."""
        if self.is_log:
            decades = range(math.ceil(math.log10(self.low) - 1e-9), math.floor(math.log10(self.high) + 1e-9) + 1)
            found = [10.0**each for each in decades]
            return found[:: max(1, len(found) // count)] or [self.low]
        return nice_ticks(self.low, self.high, count)


def nice_ticks(low: float, high: float, count: int = 5) -> list[float]:
    """About `count` round numbers from `low` to `high`.

    Example:
        >>> nice_ticks(0.0, 1.0, 5)
        [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    if not high > low:
        return [low]
    raw = (high - low) / count
    power = 10.0 ** math.floor(math.log10(raw))
    step = next((unit * power for unit in (1, 2, 5) if unit * power >= raw * 0.999), 10 * power)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, -math.floor(math.log10(step)))
    return [round(number * step, digits + 1) for number in range(first, last + 1)] or [low]


def show_tick(value: float) -> str:
    if value == 0:
        return "0"
    if abs(value) >= 1e6 or abs(value) < 1e-4:
        return f"{value:.1e}".replace("e-0", "e-").replace("e+0", "e")
    return f"{value:g}"


def draw_lines(
    lines: Sequence[Mapping[str, Any]],
    label: str,
    *,
    width: int = 440,
    height: int = 190,
    is_log: bool = False,
    x_labels: Sequence[str] | None = None,
) -> Markup:
    """Curves. A line has `x`, `y` and `label`; `smooth` is drawn over the raw one, which stays visible.

    Args:
        lines: At most ten have colors of their own.
        label: What the picture shows, for those who cannot see it.
        width: In pixels.
        height: In pixels.
        is_log: Whether the values are on a logarithmic scale. Those that are not positive are left out.
        x_labels: Names of the positions 0, 1, 2, … instead of numbers.
    """
    kept = [_positive(line) if is_log else line for line in lines]
    kept = [line for line in kept if len(line["x"])]
    if not kept:
        return Markup('<p class="faint">no values yet</p>')
    xs = [value for line in kept for value in (line["x"][0], line["x"][-1], min(line["x"]), max(line["x"]))]
    ys = [value for line in kept for value in line["y"] if value is not None]
    low, high = _padded(min(ys), max(ys), is_log)
    x = Scale(min(xs), max(xs), _LEFT, width - _RIGHT)
    y = Scale(low, high, height - _BOTTOM, _TOP, is_log)
    parts = [_axes(x, y, width, height, x_labels)]
    for number, line in enumerate(kept):
        color = f"s{number % NUM_COLORS}"
        smooth = line.get("smooth")
        title = f"<title>{escape(line['label'])}</title>"
        parts.append(f'<path class="line {color}{" raw" if smooth else ""}" d="{_path(line["x"], line["y"], x, y)}">')
        parts.append(f"{title}</path>")
        if smooth:
            parts.append(f'<path class="line {color}" d="{_path(line["x"], smooth, x, y)}">{title}</path>')
        if len(line["x"]) == 1:
            parts.append(f'<circle class="dot {color}" cx="{x(line["x"][0])}" cy="{y(line["y"][0])}" r="3"/>')
        if line.get("open_from") is not None:
            at = x(line["open_from"])
            parts.append(f'<line class="open" x1="{at}" x2="{at}" y1="{_TOP}" y2="{height - _BOTTOM}"/>')
    return _picture(parts, label, width, height)


def _positive(line: Mapping[str, Any]) -> dict[str, Any]:
    kept = [number for number, value in enumerate(line["y"]) if value > 0]
    smooth = line.get("smooth")
    return {
        **line,
        "x": [line["x"][each] for each in kept],
        "y": [line["y"][each] for each in kept],
        "smooth": [max(smooth[each], 1e-300) for each in kept] if smooth else None,
    }


def _padded(low: float, high: float, is_log: bool) -> tuple[float, float]:
    if is_log:
        return (low / 1.1, high * 1.1) if high > low else (low / 2, high * 2)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return low - margin, high + margin


def _path(xs: Sequence[float], ys: Sequence[float | None], x: Scale, y: Scale) -> str:
    parts, is_pen_up = [], True
    for at, value in zip(xs, ys, strict=True):
        if value is None:
            is_pen_up = True
        else:
            parts.append(f"{'M' if is_pen_up else 'L'}{x(at):g} {y(value):g}")
            is_pen_up = False
    return "".join(parts)


def _axes(x: Scale, y: Scale, width: int, height: int, x_labels: Sequence[str] | None = None) -> str:
    parts = []
    for tick in y.ticks(5):
        at = y(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 3.5}" text-anchor="end">{show_tick(tick)}</text>')
    if x_labels is None:
        ticks = [tick for tick in x.ticks(6) if tick == int(tick) or x.high - x.low < 2]
    else:
        room = max(1, (width - _LEFT) // (_CHARACTER * max(map(len, x_labels), default=1) + 44))
        ticks = [float(each) for each in range(0, len(x_labels), -(-len(x_labels) // room))]
    for tick in ticks:
        text = show_tick(tick) if x_labels is None else x_labels[int(tick)]
        at = x(tick)
        anchor = "middle" if _LEFT + 20 < at < width - 30 else "start" if at <= _LEFT + 20 else "end"
        parts.append(f'<text class="tick" x="{at}" y="{height - 6}" text-anchor="{anchor}">{escape(text)}</text>')
    return "".join(parts)


def _picture(parts: Iterable[str], label: str, width: int, height: int, kind: str = "chart") -> Markup:
    body = "".join(parts)
    return Markup(
        f'<svg class="{kind}" viewBox="0 0 {width} {height}" role="img" aria-label="{escape(label)}" '
        f'xmlns="http://www.w3.org/2000/svg">{body}</svg>'
    )


def draw_bars(
    bars: Sequence[tuple[str, float]],
    label: str,
    *,
    width: int = 440,
    height: int = 130,
    mark: str | None = None,
) -> Markup:
    """Upright bars beside each other, each with a name; the bar named `mark` and those after it are faint."""
    if not bars:
        return Markup('<p class="faint">nothing to count yet</p>')
    highest = max(value for _, value in bars) or 1.0
    y = Scale(0.0, highest, height - _BOTTOM, _TOP)
    room = min(_WIDEST_BAR, (width - _LEFT - _RIGHT) / len(bars))
    parts = []
    for tick in nice_ticks(0.0, highest, 3):
        at = y(tick)
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{width - _RIGHT}" y1="{at}" y2="{at}"/>')
        parts.append(f'<text class="tick" x="{_LEFT - 6}" y="{at + 3.5}" text-anchor="end">{_short(tick)}</text>')
    every = max(1, math.ceil((_CHARACTER * max(len(name) for name, _ in bars) + 12) / room))
    is_faint = False
    for number, (name, value) in enumerate(bars):
        is_faint = is_faint or name == mark
        left, gap = _LEFT + number * room, min(2.0, room * 0.15)
        top = y(value)
        parts.append(
            f'<rect class="bar{" old" if is_faint else ""}" x="{left + gap / 2:.2f}" y="{top}" '
            f'width="{max(0.5, room - gap):.2f}" height="{max(0.0, height - _BOTTOM - top):.2f}">'
            f"<title>{escape(name)}: {value:,g}</title></rect>"
        )
        if number % every == 0:
            anchor = "start" if number == 0 and room < 40 else "middle"
            at = left + (room / 2 if anchor == "middle" else 0)
            parts.append(
                f'<text class="tick" x="{at:.2f}" y="{height - 6}" text-anchor="{anchor}">{escape(name)}</text>'
            )
    return _picture(parts, label, width, height)


def _short(value: float) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def draw_reliability(bins: Sequence[Mapping[str, float]], label: str, size: int = 300) -> Markup:
    """What was true over what was predicted: on the diagonal, the model means what it says."""
    if not bins:
        return Markup('<p class="faint">no predictions with a target</p>')
    values = [each[name] for each in bins for name in ("mean_prediction", "mean_target")]
    low, high = min(0.0, *values), max(values) * 1.05 or 1.0
    x, y = Scale(low, high, _LEFT, size - _RIGHT), Scale(low, high, size - _BOTTOM, _TOP)
    largest = max(each["num_examples"] for each in bins)
    parts = [
        _axes(x, y, size, size),
        f'<line class="diagonal" x1="{x(low)}" y1="{y(low)}" x2="{x(high)}" y2="{y(high)}"/>',
        f'<path class="line s0" d="'
        f'{_path([each["mean_prediction"] for each in bins], [each["mean_target"] for each in bins], x, y)}"/>',
    ]
    for each in bins:
        radius = 2 + 3 * math.sqrt(each["num_examples"] / largest)
        parts.append(
            f'<circle class="dot s0" cx="{x(each["mean_prediction"])}" cy="{y(each["mean_target"])}" r="{radius:.2f}">'
            f"<title>predicted {each['mean_prediction']:.4f}, was {each['mean_target']:.4f}, "
            f"{each['num_examples']:,} examples</title></circle>"
        )
    return _picture(parts, label, size, size, "chart square")


def draw_points(points: Sequence[tuple[float, float, str]], across: str, up: str) -> Markup:
    """Points, each with a name."""
    if not points:
        return Markup('<p class="faint">no run has numbers for both</p>')
    width, height = 640, 280
    x = Scale(*_padded(min(p[0] for p in points), max(p[0] for p in points), False), _LEFT, width - _RIGHT)
    y = Scale(*_padded(min(p[1] for p in points), max(p[1] for p in points), False), height - _BOTTOM, _TOP)
    dots = (
        f'<circle class="dot s0" cx="{x(a)}" cy="{y(b)}" r="3"><title>{escape(name)}: {a:g}, {b:g}</title></circle>'
        for a, b, name in points
    )
    return _picture([_axes(x, y, width, height), *dots], f"{up} over {across}", width, height)


_BOX, _GAP, _ROW = 190, 70, 58


def draw_chain(top: str, kind: str, links: Sequence[Mapping[str, Any]]) -> Markup:
    """A result on the right, what it was made from on its left; stale links are marked."""
    places: dict[str, tuple[int, int]] = {}
    names: dict[str, tuple[str, str, str]] = {"": (PurePosixPath(top).name or top, kind, "")}
    edges: list[tuple[str, str, bool]] = []
    above = {-1: ""}
    columns: dict[str, int] = {"": 0}
    for link in links:
        path = str(link["path"])
        above[link["depth"]] = path
        parent = above[link["depth"] - 1]
        names.setdefault(path, (PurePosixPath(path).name or path, link["kind"] or link["state"], link["state"]))
        columns[path] = max(columns.get(path, 0), link["depth"] + 1)
        if (path, parent, bool(link["is_stale"])) not in edges:
            edges.append((path, parent, bool(link["is_stale"])))
    rows: dict[int, int] = {}
    depth = max(columns.values())
    for path, column in columns.items():
        row = rows.get(column, 0)
        rows[column] = row + 1
        places[path] = ((depth - column) * (_BOX + _GAP) + 4, row * _ROW + 4)
    width, height = (depth + 1) * (_BOX + _GAP) - _GAP + 8, max(rows.values()) * _ROW
    parts = []
    for path, parent, is_stale in edges:
        (x1, y1), (x2, y2) = places[path], places[parent]
        x1, y1, y2 = x1 + _BOX, y1 + 21, y2 + 21
        middle = (x1 + x2) / 2
        parts.append(
            f'<path class="edge{" stale" if is_stale else ""}" d="M{x1} {y1}C{middle} {y1} {middle} {y2} {x2} {y2}"/>'
        )
    for path, (name, what, state) in names.items():
        x, y = places[path]
        is_bad = state not in ("", "good", "live", "raw files", "not kept")
        shown = what if state in ("", "good", what) else f"{what}, {state}"
        parts.append(
            f'<g><title>{escape(path or top)}</title><rect class="box{" stale" if is_bad else ""}" x="{x}" y="{y}" '
            f'width="{_BOX}" height="42" rx="4"/>'
            f'<text class="name" x="{x + 10}" y="{y + 18}">{escape(_cut(name))}</text>'
            f'<text class="tick" x="{x + 10}" y="{y + 33}">{escape(_cut(shown))}</text></g>'
        )
    picture = _picture(parts, f"What {top} was made from", width, height, "graph")
    return Markup(str(picture).replace("<svg ", f'<svg width="{width}" height="{height}" ', 1))


def _cut(text: str, most: int = 26) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"
