"""`samovar chain`: what results were made from, as a tree or a picture."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_console
from samovar.results import Link

if TYPE_CHECKING:
    from samovar.runs.find import Target


def chain(
    targets: Annotated[
        list[str], typer.Argument(help="Result directories, configs, patterns of them.", metavar="TARGET…")
    ],
    png: Annotated[Path | None, typer.Option(help="Draw the graph here.", metavar="FILE")] = None,
    svg: Annotated[Path | None, typer.Option(help="Draw the graph here.", metavar="FILE")] = None,
    as_json: Json = False,
) -> None:
    """Draw what results were made from, and what is stale.

    Links that do not hold any more are marked; `samovar why` says why.

    Example: samovar chain models/* --png chain.png
    """
    from samovar.provenance.chain import draw, links_of, make_graph
    from samovar.runs.find import find_targets

    found = find_targets(targets)
    for path, suffix in ((png, ".png"), (svg, ".svg")):
        if path is not None and path.suffix != suffix:
            raise typer.BadParameter(f"{path}: expected a name that ends with {suffix}: rename it")
    for path in (png, svg):
        if path is not None:
            draw(make_graph(found), path)
    if as_json:
        print_json([{"name": each.name, "kind": _kind(each), "sources": nest(links_of(each))} for each in found])
    elif png is None and svg is None:
        console = open_console()
        for target in found:
            console.print(make_tree(f"{target.name} ({_kind(target)})", links_of(target)))


def _kind(target: "Target") -> str:
    return target.directory.lineage.kind if target.directory is not None else "config"


def nest(links: list[Link]) -> list[dict[str, Any]]:
    """The same tree for programs: each source with its own."""
    sources: dict[int, list[dict[str, Any]]] = {-1: []}
    for link in links:
        kind = link.origin.lineage.kind if link.origin is not None else None
        source = {"key": link.source.key, "path": link.source.path, "id": link.source.id, "kind": kind}
        sources[link.depth] = []
        sources[link.depth - 1].append(
            {**source, "state": link.state, "is_stale": link.is_stale, "sources": sources[link.depth]}
        )
    return sources[-1]


def make_tree(title: str, links: list[Link]) -> Tree:
    tree = Tree(Text(title))
    branches = {-1: tree}
    for link in links:
        kind = f" ({link.origin.lineage.kind})" if link.origin is not None else ""
        text = Text(
            f"{link.source.key} = {link.source.path}{kind}  [{link.state}]", style="red" if link.is_stale else ""
        )
        branches[link.depth] = branches[link.depth - 1].add(text)
    return tree
