"""PNG and SVG of curves, dendrograms and others, the same bytes each time. Only who draws waits for matplotlib."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from samovar.errors import BadInput
from samovar.runs.curves import Panel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from samovar.runs.tree import Dendrogram


_MOST_IN_LEGEND = 20


def save_panels(panels: Sequence[Panel], files: Mapping[str, Path]) -> None:
    """One row a panel, into each of the files; they are named by their kind, png or svg."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 4 * len(panels)), layout="constrained")
    for axes, panel in zip(figure.subplots(len(panels), 1, squeeze=False)[:, 0], panels, strict=True):
        for line in panel.lines:
            axes.plot(line.steps, line.values, ".-", markersize=3, linewidth=1, label=line.label)
        axes.set_ylabel(panel.metric)
        axes.grid(alpha=0.3)
        if len(panel.lines) <= _MOST_IN_LEGEND:
            axes.legend(fontsize="small")
    save_figure(figure, files)


def save_dendrogram(tree: "Dendrogram", metric: str | None, files: Mapping[str, Path]) -> None:
    """Leaves from top to bottom, distances from right to left, names in the colour of the metric."""
    from matplotlib import colormaps
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, max(2.0, 0.3 * len(tree.leaves) + 1)), layout="constrained")
    axes = figure.add_subplot(xlabel="share of keys that differ")
    for merge in tree.merges:
        xs = [merge.first_height, merge.height, merge.height, merge.second_height]
        axes.plot(xs, [merge.first_row, merge.first_row, merge.second_row, merge.second_row], color="0.4", linewidth=1)
    axes.invert_yaxis()
    axes.set_xlim(max(tree.height * 1.02, 1e-9), 0)
    axes.yaxis.tick_right()
    axes.set_yticks(range(len(tree.leaves)), [leaf.label for leaf in tree.leaves], fontsize="small")
    for text, leaf in zip(axes.get_yticklabels(), tree.leaves, strict=True):
        share: Any = tree.share(leaf)
        if share is not None:
            text.set_color(colormaps["viridis"](0.9 * (1 - share)))
    if metric is not None:
        axes.set_title(f"dark: high {metric}", fontsize="small")
    save_figure(figure, files)


def save_figure(figure: "Figure", files: Mapping[str, Path]) -> None:
    """Into each of the files; they are named by their kind, png or svg."""
    import matplotlib

    for kind, file in files.items():
        # Without these an SVG holds the time, and names that are drawn by chance.
        metadata = {"Date": None} if kind == "svg" else {"Software": None}
        with matplotlib.rc_context({"svg.hashsalt": "samovar"}):
            try:
                figure.savefig(file, format=kind, metadata=metadata, dpi=100)
            except OSError as error:
                raise BadInput(f"{file}: {error.strerror}; expected a place to write to: give another") from None
