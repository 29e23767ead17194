"""`samovar run`: a script of the user's own and a config become a result directory."""

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, only_answer, print_json
from samovar.cli.console import print_notes


def run(
    script: Annotated[Path, typer.Argument(help="A Python file with main(params, out).", metavar="SCRIPT")],
    config: Annotated[Path, typer.Option("-c", "--config", help="The config, a JSON file.")],
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the result.", metavar="DIR")] = None,
    accept_defaults: Annotated[
        bool, typer.Option("--accept-defaults", help="Go on though the script's defaults changed since an earlier run.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Run a stage of your own: main(params, out) of a script.

    Once for each config; its directory is written once.

    Example: samovar run augment.py -c augmentation.json --conf '{"copies": 8}' --out augmentation_8
    """
    from samovar.config.identity import PLACE_KEYS
    from samovar.stages.stage import run_stage
    from samovar.training.request import make_request

    request = make_request(config, script, conf or [], out=out, directory_keys=PLACE_KEYS["run"])
    with only_answer(as_json):
        done = run_stage(replace(request, accept_defaults=accept_defaults))
    print_notes(done.notes)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
        return
    print(f"{done.directory}: finished{' already, nothing to do' if done.was_finished else ''}")
