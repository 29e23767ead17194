"""The commands `run`, `chain` and `why`: stages of the user's own, and how results depend on each other."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from samovar.cli.options import AcceptDefaults, Conf, Json, Png, ResultDir, Svg, Targets
from samovar.cli.output import open_console, print_json, print_line, print_notes, reserve_stdout

if TYPE_CHECKING:
    from samovar.results import Link


def run(
    script: Annotated[str, typer.Argument(help="A Python file with main(params, out).", metavar="SCRIPT")],
    config: Annotated[str, typer.Option("-c", "--config", help="The config, a JSON file.", metavar="FILE")],
    conf: Conf = None,
    out: Annotated[str | None, typer.Option(help="Directory of the result.", metavar="DIR")] = None,
    accept_defaults: AcceptDefaults = False,
    as_json: Json = False,
) -> None:
    """Run a script of your own: its main(params, out).

    Each config runs once, into a result directory of its own.

    Example: samovar run augment.py -c augment.json --conf '{"copies": 8}' --out augment_8
    """
    from samovar.config import parse_override
    from samovar.stages import run_stage

    changes = [parse_override(text) for text in conf or []]
    with reserve_stdout(as_json):
        done = run_stage(script, config, out, overrides=changes, accept_defaults=accept_defaults)
    print_notes(done.notes)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
    else:
        print_line(f"{done.directory}: {'already finished, nothing to do' if done.was_finished else 'finished'}")


def chain(targets: Targets, png: Png = None, svg: Svg = None, as_json: Json = False) -> None:
    """Show what results were made from, and what is stale.

    Stale links are marked; `samovar why` explains them.

    Example: samovar chain models/* --png chain.png
    """
    from samovar.provenance import chain as follow
    from samovar.provenance import draw_chains
    from samovar.runs import find_targets

    found = [follow(target) for target in find_targets(targets)]
    for path, kind in ((png, "png"), (svg, "svg")):
        if path is not None:
            draw_chains(found, path, kind)
    if as_json:
        print_json([{"name": each.name, "kind": each.kind, "sources": nest_links(each.links)} for each in found])
    elif png is None and svg is None:
        console = open_console()
        for each in found:
            console.print(draw_links(f"{each.name} ({each.kind})", each.links))


def nest_links(links: "Sequence[Link]") -> list[dict[str, Any]]:
    """The tree of sources for JSON: each source holds its own."""
    sources: dict[int, list[dict[str, Any]]] = {-1: []}
    for link in links:
        kind = link.origin.lineage.kind if link.origin is not None else None
        source = {"key": link.source.key, "path": link.source.path, "id": link.source.id, "kind": kind}
        sources[link.depth] = []
        sources[link.depth - 1].append(
            {**source, "state": link.state, "is_stale": link.is_stale, "cut": link.cut, "sources": sources[link.depth]}
        )
    return sources[-1]


def draw_links(title: str, links: "Sequence[Link]") -> Tree:
    """The tree of sources for a terminal."""
    tree = Tree(Text(title))
    branches = {-1: tree}
    for link in links:
        kind = f" ({link.origin.lineage.kind})" if link.origin is not None else ""
        cut = f"  … {link.cut}" if link.cut is not None else ""
        text = f"{link.source.key} = {link.source.path}{kind}  [{link.state}]{cut}"
        branches[link.depth] = branches[link.depth - 1].add(Text(text, style="red" if link.is_stale else ""))
    return tree


def why(directory: ResultDir, as_json: Json = False) -> None:
    """Explain why a result is stale.

    Lists changed config keys, code, sources and raw files along its chain, and the environment.

    Example: samovar why models/click_1
    """
    from samovar.provenance import why as explain

    found = explain(directory)
    if as_json:
        print_json(asdict(found))
        return
    for link in found.stale:
        print_line(f"{link.key} = {link.path}: {link.state}")
        for reason in link.reasons:
            print_line(f"  {reason}")
    for line in found.raw_files:
        print_line(line)
    if not found:
        print_line(f"{found.directory}: no source has changed")
    if found.code is not None:
        print_line(f"code: {found.code}")
    if found.environment:
        print_line("made in another environment:")
        for change in found.environment:
            print_line(f"  {change}")
