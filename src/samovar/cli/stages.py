"""The commands `run`, `chain` and `why`: stages of the user's own, and how results depend on each other."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text
from rich.tree import Tree

from samovar.cli.options import AcceptDefaults, Conf, Json, Png, ResultDir, Svg, Targets
from samovar.cli.output import open_console, print_json, print_notes, reserve_stdout

if TYPE_CHECKING:
    from samovar.results import Link
    from samovar.runs.find import Target


def run(
    script: Annotated[Path, typer.Argument(help="A Python file with main(params, out).", metavar="SCRIPT")],
    config: Annotated[Path, typer.Option("-c", "--config", help="The config, a JSON file.", metavar="FILE")],
    conf: Conf = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the result.", metavar="DIR")] = None,
    accept_defaults: AcceptDefaults = False,
    as_json: Json = False,
) -> None:
    """Run a script of your own: its main(params, out).

    Each config runs once, into a result directory of its own.

    Example: samovar run augment.py -c augment.json --conf '{"copies": 8}' --out augment_8
    """
    from samovar.config.identity import PLACE_KEYS
    from samovar.stages.stage import run_stage
    from samovar.training.request import make_request

    request = make_request(config, script, conf or [], out=out, directory_keys=PLACE_KEYS["run"])
    with reserve_stdout(as_json):
        done = run_stage(replace(request, accept_defaults=accept_defaults))
    print_notes(done.notes)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
    else:
        print(f"{done.directory}: {'already finished, nothing to do' if done.was_finished else 'finished'}")


def chain(targets: Targets, png: Png = None, svg: Svg = None, as_json: Json = False) -> None:
    """Show what results were made from, and what is stale.

    Stale links are marked; `samovar why` explains them.

    Example: samovar chain models/* --png chain.png
    """
    from samovar.provenance.chain import draw, links_of, make_graph
    from samovar.runs.find import find_targets

    found = find_targets(targets)
    for path, suffix in ((png, ".png"), (svg, ".svg")):
        if path is not None and path.suffix != suffix:
            raise typer.BadParameter(f"{path}: the name must end with {suffix}")
    for path in (png, svg):
        if path is not None:
            draw(make_graph(found), path)
    if as_json:
        print_json([{"name": each.name, "kind": _kind(each), "sources": nest_links(links_of(each))} for each in found])
    elif png is None and svg is None:
        console = open_console()
        for target in found:
            console.print(draw_links(f"{target.name} ({_kind(target)})", links_of(target)))


def _kind(target: "Target") -> str:
    return target.directory.lineage.kind if target.directory is not None else "config"


def nest_links(links: "list[Link]") -> list[dict[str, Any]]:
    """The tree of sources for JSON: each source holds its own."""
    sources: dict[int, list[dict[str, Any]]] = {-1: []}
    for link in links:
        kind = link.origin.lineage.kind if link.origin is not None else None
        source = {"key": link.source.key, "path": link.source.path, "id": link.source.id, "kind": kind}
        sources[link.depth] = []
        sources[link.depth - 1].append(
            {**source, "state": link.state, "is_stale": link.is_stale, "sources": sources[link.depth]}
        )
    return sources[-1]


def draw_links(title: str, links: "list[Link]") -> Tree:
    """The tree of sources for a terminal."""
    tree = Tree(Text(title))
    branches = {-1: tree}
    for link in links:
        kind = f" ({link.origin.lineage.kind})" if link.origin is not None else ""
        text = f"{link.source.key} = {link.source.path}{kind}  [{link.state}]"
        branches[link.depth] = branches[link.depth - 1].add(Text(text, style="red" if link.is_stale else ""))
    return tree


def why(directory: ResultDir, as_json: Json = False) -> None:
    """Explain why a result is stale.

    Lists changed config keys, code, sources and raw files along its chain, and the environment.

    Example: samovar why models/click_1
    """
    from samovar.provenance.chain import with_sources
    from samovar.provenance.why import explain, find_raw_changes
    from samovar.results import open_directory
    from samovar.results.environment import capture_environment, changed_environment

    result = open_directory(directory)
    stale = list(explain(result))
    raw = [f"{each.name}: {change}" for each in with_sources([result]) for change in find_raw_changes(each)]
    changes = changed_environment(result.environment, capture_environment())
    if as_json:
        links = [
            {"key": link.source.key, "path": link.source.path, "state": link.state, "reasons": reasons}
            for link, reasons in stale
        ]
        print_json({"directory": result.name, "stale": links, "raw_files": raw, "environment": changes})
        return
    for link, reasons in stale:
        print(f"{link.source.key} = {link.source.path}: {link.state}")
        for reason in reasons:
            print(f"  {reason}")
    for line in raw:
        print(line)
    if not stale and not raw:
        print(f"{result.name}: no source has changed")
    if changes:
        print("made in another environment:")
        for change in changes:
            print(f"  {change}")
