"""`samovar brew`: a recipe becomes a tensor table."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


def brew(
    recipe: Annotated[Path, typer.Argument(help="The recipe, a JSON file.", metavar="RECIPE")],
    append: Annotated[bool, typer.Option("--append", help="Add whole hours to a live table.")] = False,
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the table.", metavar="DIR")] = None,
) -> None:
    """Brew raw rows into a tensor table of ready minibatches.

    Example: samovar brew clicks.json --conf '{"batch_size": 512}' --out tables/clicks
    """
    from samovar.brew.progress import Progress
    from samovar.brew.recipe import Recipe
    from samovar.brew.stage import brew as brew_recipe
    from samovar.cli.progress import shown
    from samovar.config import merge, parse_override, read_config

    tree = merge(read_config(recipe), *map(parse_override, conf or []))
    loaded = Recipe.load(tree, str(recipe))
    result = out or recipe.parent / (loaded.result or recipe.stem)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    progress = Progress()
    with shown(progress, console):
        done = brew_recipe(loaded, tree, recipe.parent, result, append=append, progress=progress)
    for note in done.notes:
        console.print(note, markup=False)
    if done.tally is None:
        print(f"{done.directory}: finished already, nothing to do")
        return
    tally = done.tally
    print(f"{done.directory}: version {done.version}, {tally.num_rows} rows in {tally.num_batches} minibatches")
    print(f"short minibatches: {tally.num_short_batches}")
    if tally.num_spanning_pivots:
        print(f"groups that go on in the next granule and are not kept together there: {tally.num_spanning_pivots}")
