"""`samovar train`: a config and a script become a model directory."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console


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
) -> None:
    """Train a model, or go on where it was stopped or killed.

    Example: samovar train online.json --script model.py --conf '{"model.lr": 0.01}'
    """
    from dataclasses import replace

    from samovar.pipelines.request import make_request
    from samovar.pipelines.train import train as run

    request = make_request(config, script, conf or [], file or [], out)
    request = replace(request, accept_script=accept_script, accept_defaults=accept_defaults)
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    if dry_run is not None:
        from samovar.pipelines.dry_run import try_batches

        print(try_batches(request, dry_run))
        return
    done = run(request, console)
    if done.was_finished:
        for note in done.notes:
            console.print(note, markup=False)
        print(f"{done.directory}: finished already, nothing to do")
    else:
        print(f"{done.directory}: finished")
