"""`chain`: the graph of results and the sources that they were made from, and its picture. Knows links and their
states, but not why one is stale (reasons.py).
"""

import glob
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from samovar.config import flatten, resolve_path
from samovar.config.places import PathLike, Place, as_place
from samovar.config.values import at, split
from samovar.errors import NotAResult
from samovar.results import Link, ResultDirectory, Source, open_directory
from samovar.results.directory import follow_sources
from samovar.runs.find import Named, Target, find_target
from samovar.store.reports import save_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SOURCE_KEYS = ("source", "table", "init_from")
_COLORS = {"good": "#2e7d32", "live": "#2e7d32", "raw files": "#607d8b", "not kept": "#607d8b"}
_STALE_COLOR = "#c62828"


@dataclass(frozen=True)
class Chain:
    """What a result was made from, or a config would be: what `chain` returns.

    Attributes:
        name: The result or config.
        path: Where it is.
        kind: Of the result: model, table, prediction or stage; "config" for a config file.
        links: The sources in order. Those of a source follow it, one deeper.

    Example:
        >>> chain("stages/total").is_stale
        False
    """

    name: str
    path: Place
    kind: str
    links: Sequence[Link]

    @property
    def is_stale(self) -> bool:
        """Whether a source is no longer what it was."""
        return any(link.is_stale for link in self.links)


def chain(target: Named) -> Chain:
    """Follow a result to the results and raw files that it was made from.

    Args:
        target: A result directory, or a config, which has the sources that it would have if it were run now.

    Returns:
        All sources, with their states.

    Raises:
        BadInput: There is no result and no config, or there are several.

    Example:
        >>> found = chain("stages/total")
        >>> for link in found.links:
        ...     print(link.depth, link.source.key, link.state)
        0 source good
        >>> found.is_stale
        False
    """
    found = find_target(target)
    if found.directory is not None:
        return Chain(found.name, found.path, found.directory.lineage.kind, found.directory.chain())
    links = list(follow_sources(_planned_sources(found), str(found.path.resolve())))
    return Chain(found.name, found.path, "config", links)


def find_sources(paths: Iterable[PathLike]) -> list[Place]:
    """Find all results that results were made from.

    Args:
        paths: Result directories.

    Returns:
        These results, and every result along their chains that still exists, each once.

    Raises:
        NotAResult: There is no result at one of the paths.

    Example:
        >>> print(*(path.name for path in find_sources(["stages/total"])))
        total numbers
    """
    return [directory.place for directory in with_sources(map(open_directory, paths))]


def with_sources(directories: Iterable[ResultDirectory]) -> list[ResultDirectory]:
    """Results and everything that they were made from and that still exists, without duplicates."""
    found: dict[Place, ResultDirectory] = {}
    for directory in directories:
        origins = [link.origin for link in directory.chain() if link.origin is not None]
        for each in (directory, *origins):
            found.setdefault(each.place.resolve(), each)
    return list(found.values())


def _planned_sources(target: Target) -> Iterator[Source]:
    for key, value in flatten(target.config).items():
        steps = split(key)
        if steps[-1] in _SOURCE_KEYS or steps[0] in ("source", "pretrained") or key == "init_from.model":
            places = {key: value} if isinstance(value, str) else {}
            if isinstance(value, list):
                places = {at(key, index): each for index, each in enumerate(value) if isinstance(each, str)}
            folder = target.path.parent
            yield from (_as_source(place, resolve_path(path, folder)) for place, path in places.items())


def _as_source(key: str, path: Place) -> Source:
    try:
        return open_directory(path).as_source(key)
    except NotAResult:
        return Source(
            key,
            str(path.resolve()),
            "",
            is_raw=(isinstance(path, Path) and os.path.isfile(path)) or glob.has_magic(str(path)),
        )


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


def make_graph(chains: Iterable[Chain]) -> Graph:
    graph = Graph()
    for each in chains:
        top = str(each.path.resolve())
        graph.nodes[top] = f"{as_place(top).name}\n{each.kind}"
        above = {-1: top}
        for link in each.links:
            above[link.depth] = link.source.path
            graph.nodes.setdefault(link.source.path, _label(link))
            graph.edges[above[link.depth - 1], link.source.path] = link
    return graph


def _label(link: Link) -> str:
    return f"{as_place(link.source.path).name}\n{link.origin.lineage.kind if link.origin is not None else link.state}"


def draw_chains(chains: Chain | Iterable[Chain], path: Path | str, format: str | None = None) -> None:
    """Draw chains as one graph, with sources on the left and stale links in red.

    Args:
        chains: What `chain` returned, once or several times.
        path: The file.
        format: "png" or "svg", by default the suffix of the path.

    Raises:
        BadInput: The file cannot be written, or names no format.

    Example:
        >>> draw_chains([chain("stages/numbers"), chain("stages/total")], "chain.svg")
    """
    save_figure(_draw(make_graph([chains] if isinstance(chains, Chain) else chains)), path, format)


def _draw(graph: Graph) -> "Figure":
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
    return figure
