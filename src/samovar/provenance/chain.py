"""`chain`: the graph of results and the sources that they were made from, and its picture. Knows links and their
states, but not why one is stale (why.py).
"""

import glob
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from samovar.config import flatten, resolve_path
from samovar.config.values import at, split
from samovar.errors import NotAResult
from samovar.results import Link, ResultDirectory, Source, open_directory
from samovar.results.directory import follow_sources
from samovar.runs.drawing import save_figure
from samovar.runs.find import Target

_SOURCE_KEYS = ("source", "table", "init_from")
_COLORS = {"good": "#2e7d32", "live": "#2e7d32", "raw files": "#607d8b"}
_STALE_COLOR = "#c62828"


def links_of(target: Target) -> list[Link]:
    """The links that a result recorded, or that a config would have if it were run now."""
    if target.directory is not None:
        return target.directory.chain()
    return list(follow_sources(_planned_sources(target), (str(target.path.resolve()),)))


def with_sources(directories: Iterable[ResultDirectory]) -> list[ResultDirectory]:
    """Results and everything that they were made from and that still exists, without duplicates."""
    found: dict[Path, ResultDirectory] = {}
    for directory in directories:
        origins = [link.origin for link in directory.chain() if link.origin is not None]
        for each in (directory, *origins):
            found.setdefault(Path(each.name).resolve(), each)
    return list(found.values())


def _planned_sources(target: Target) -> Iterator[Source]:
    for key, value in flatten(target.config).items():
        if split(key)[-1] in _SOURCE_KEYS or split(key)[0] == "source":
            places = {key: value} if isinstance(value, str) else {}
            if isinstance(value, list):
                places = {at(key, index): each for index, each in enumerate(value) if isinstance(each, str)}
            folder = target.path.parent
            yield from (_as_source(place, resolve_path(path, folder)) for place, path in places.items())


def _as_source(key: str, path: Path) -> Source:
    try:
        return open_directory(path).as_source(key)
    except NotAResult:
        return Source(key, str(path.resolve()), "", is_raw=path.is_file() or glob.has_magic(str(path)))


@dataclass
class Graph:
    """Results by absolute path, and the links from each to its sources."""

    nodes: dict[str, str] = field(default_factory=dict)
    """The label of each: name and kind."""
    edges: dict[tuple[str, str], Link] = field(default_factory=dict)

    def columns(self) -> dict[str, int]:
        """The number of steps from the start of the chain to each node."""
        columns = dict.fromkeys(self.nodes, 0)
        links = [edge for edge, link in self.edges.items() if link.state != "circle"]
        for _ in self.nodes:
            for made, source in links:
                columns[made] = max(columns[made], min(columns[source] + 1, len(self.nodes)))
        return columns


def make_graph(targets: Iterable[Target]) -> Graph:
    graph = Graph()
    for target in targets:
        top = str(target.path.resolve())
        kind = target.directory.lineage.kind if target.directory is not None else "config"
        graph.nodes[top] = f"{Path(top).name}\n{kind}"
        above = {-1: top}
        for link in links_of(target):
            above[link.depth] = link.source.path
            graph.nodes.setdefault(link.source.path, _label(link))
            graph.edges[above[link.depth - 1], link.source.path] = link
    return graph


def _label(link: Link) -> str:
    return f"{Path(link.source.path).name}\n{link.origin.lineage.kind if link.origin is not None else link.state}"


def draw(graph: Graph, path: Path) -> None:
    """Draw the graph with sources on the left, as PNG or SVG by the suffix of the path."""
    from matplotlib.figure import Figure  # takes a second to import

    columns = graph.columns()
    rows: dict[int, int] = {}
    places = {}
    for node in sorted(graph.nodes, key=lambda node: (columns[node], node)):
        rows[columns[node]] = rows.get(columns[node], 0) + 1
        places[node] = (columns[node], -rows[columns[node]])
    figure = Figure(figsize=(2.5 * len(rows) + 1, 1.2 * max(rows.values(), default=1) + 0.8), layout="constrained")
    axis = figure.subplots()
    axis.set_axis_off()
    for (made, source), link in graph.edges.items():
        color = _COLORS.get(link.state, _STALE_COLOR)
        style = {"arrowstyle": "-|>", "color": color, "shrinkA": 45, "shrinkB": 45, "linewidth": 1.5}
        axis.annotate("", places[made], places[source], arrowprops=style)
        if link.is_stale:
            x, y = ((a + b) / 2 for a, b in zip(places[made], places[source], strict=True))
            axis.text(x, y, link.state, color=color, ha="center", va="bottom", fontsize=8)
    for node, place in places.items():
        axis.text(*place, graph.nodes[node], ha="center", va="center", fontsize=9,
                  bbox={"boxstyle": "round", "facecolor": "white", "edgecolor": "#455a64"})  # fmt: skip
    axis.set_xlim(-0.6, max(rows, default=0) + 0.6)
    axis.set_ylim(-max(rows.values(), default=1) - 0.6, -0.4)
    save_figure(figure, {path.suffix.removeprefix("."): path})
