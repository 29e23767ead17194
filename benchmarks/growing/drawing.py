"""Charts as SVG, both axes logarithmic; the same bytes for the same numbers. Measures nothing."""

import math
from collections.abc import Sequence
from pathlib import Path

import matplotlib
from benchmarks.growing.base import Chart
from matplotlib.axes import Axes
from matplotlib.figure import Figure


def draw(charts: Sequence[Chart], path: Path) -> None:
    """Side by side. The grey line grows in proportion: along it, the cost per item is constant."""
    figure = Figure(figsize=(4.5 * len(charts), 3.6), layout="constrained")
    for axes, chart in zip(figure.subplots(1, len(charts), squeeze=False)[0], charts, strict=True):
        _draw_chart(axes, chart)
    path.parent.mkdir(parents=True, exist_ok=True)
    # Without these an SVG holds the time and random names.
    with matplotlib.rc_context({"svg.hashsalt": "samovar", "svg.fonttype": "none"}):
        figure.savefig(path, format="svg", metadata={"Date": None})


def _draw_chart(axes: Axes, chart: Chart) -> None:
    for label, points in chart.lines.items():
        axes.plot(list(points), list(points.values()), ".-", linewidth=1.2, label=label)
    sizes, costs = zip(*next(iter(chart.lines.values())).items(), strict=True)
    proportion = [costs[-1] * size / sizes[-1] for size in sizes]
    axes.plot(sizes, proportion, "--", color="0.7", linewidth=0.8, zorder=0)
    axes.set(xscale="log", yscale="log", ylim=_decades(chart), xlabel=chart.x_label, ylabel=chart.y_label)
    axes.set_title(chart.title, fontsize="small")
    axes.grid(alpha=0.3)
    axes.legend(fontsize="small")


def _decades(chart: Chart) -> tuple[float, float]:
    """Whole decades, so that what hardly grows looks so."""
    costs = [cost for points in chart.lines.values() for cost in points.values()]
    return 10 ** math.floor(math.log10(min(costs))), 10 ** math.ceil(math.log10(max(costs)))
