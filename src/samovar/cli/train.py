"""`samovar train`: a config and a script become a model directory."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, only_answer, print_json
from samovar.cli.console import open_notes, print_notes


def train(
    config: Annotated[Path, typer.Argument(help="The config, a JSON file.", metavar="CONFIG")],
    script: Annotated[Path, typer.Option(help="A Python file with build(params) -> Learner.")],
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    file: Annotated[
        list[str] | None, typer.Option(help="NAME=PATH: a file for build(params, files); repeatable.")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the model.", metavar="DIR")] = None,
    accept_script: Annotated[
        bool, typer.Option("--accept-script", help="Go on with a script that changed since the run began.")
    ] = False,
    accept_defaults: Annotated[
        bool, typer.Option("--accept-defaults", help="Go on though the script's defaults changed since an earlier run.")
    ] = False,
    dry_run: Annotated[
        int | None, typer.Option(help="Train so many minibatches in a temporary directory.", metavar="N", min=1)
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a model, or go on where it was stopped or killed.

    Example: samovar train online.json --script model.py --conf '{"model.lr": 0.02}' --out models/click_1
    """
    from dataclasses import replace

    from samovar.training.request import make_request
    from samovar.training.train import train as run

    if as_json and dry_run is not None:
        raise typer.BadParameter("--dry-run tells people what a run would be like: leave --json out")
    request = make_request(config, script, conf or [], file or [], out)
    request = replace(request, accept_script=accept_script, accept_defaults=accept_defaults)
    console = open_notes()
    if dry_run is not None:
        from samovar.training.dry_run import try_batches

        print(try_batches(request, dry_run))
        return
    with only_answer(as_json):
        done = run(request, console)
    if done.was_finished:  # else they were told when it began
        print_notes(done.notes, console)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
    elif done.was_finished:
        print(f"{done.directory}: finished already, nothing to do")
    else:
        print(f"{done.directory}: finished")
