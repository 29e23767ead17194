"""`samovar brew`: a recipe becomes a tensor table."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_notes, print_notes

if TYPE_CHECKING:
    from samovar.brewing.brew import BrewResult


def brew(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a JSON file.", metavar="RECIPE")],
    append: Annotated[bool, typer.Option("--append", help="Add whole hours to a live table.")] = False,
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the table.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Brew raw rows into a tensor table of ready minibatches.

    Example: samovar brew clicks.json --conf '{"batch_size": 512}' --out tables/clicks
    """
    from samovar.brewing.brew import brew as brew_recipe
    from samovar.brewing.progress import Progress
    from samovar.brewing.recipe import Recipe
    from samovar.cli.progress import shown
    from samovar.config import merge, parse_override, read_config

    tree = merge(read_config(recipe), *map(parse_override, conf or []))
    loaded = Recipe.load(tree, str(recipe))
    result = out or recipe.parent / (loaded.result or recipe.stem)
    console = open_notes()
    progress = Progress()
    with shown(progress, console):
        done = brew_recipe(loaded, tree, recipe.parent, result, append=append, progress=progress)
    print_notes(done.notes, console)
    if as_json:
        print_json(_answer(done))
        return
    if done.counts is None:
        print(f"{done.directory}: finished already, nothing to do")
        return
    tally = done.counts
    examples, minibatches = _count(tally.num_rows, "example"), _count(tally.num_batches, "minibatch", "es")
    print(f"{done.directory}: version {done.version}, {examples} in {minibatches}")
    print(f"short minibatches: {tally.num_short_batches}")
    if tally.num_spanning_pivots:
        print(f"groups that go on in the next granule and are not kept together there: {tally.num_spanning_pivots}")


def _count(number: int, noun: str, ending: str = "s") -> str:
    return f"{number} {noun}{'' if number == 1 else ending}"


def _answer(done: "BrewResult") -> dict[str, Any]:
    tally = done.counts
    counts = (
        {}
        if tally is None
        else {
            "rows": tally.num_rows,
            "minibatches": tally.num_batches,
            "short_minibatches": tally.num_short_batches,
            "spanning_groups": tally.num_spanning_pivots,
        }
    )
    return {
        "directory": done.directory,
        "was_finished": tally is None,
        "version": done.version,
        **counts,
        "notes": done.notes,
    }
