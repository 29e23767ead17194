"""`samovar verify-resume`: does a run survive kills bit for bit?"""

import tempfile
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_notes
from samovar.errors import SamovarError


def verify_resume(
    config: Annotated[Path, typer.Argument(help="The config, a JSON file.", metavar="CONFIG")],
    script: Annotated[Path, typer.Option(help="A Python file with build(params) -> Learner.")],
    kills: Annotated[int, typer.Option(help="How often to kill.", min=1)] = 10,
    conf: Annotated[list[str] | None, typer.Option(help="Keys to change, as JSON; repeatable.")] = None,
    file: Annotated[list[str] | None, typer.Option(help="NAME=PATH: a file for build; repeatable.")] = None,
    seed: Annotated[int, typer.Option(help="Draws the instants of the kills.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep the runs here.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Train straight and with random kills; compare every byte.

    Example: samovar verify-resume online.json --script model.py --kills 30
    """
    from samovar.provenance.verify import verify_resume as verify
    from samovar.training.request import make_request

    request = make_request(config, script, conf or [], file or [])
    console = open_notes()
    with tempfile.TemporaryDirectory(prefix="samovar-verify-") as temporary:
        folder = out or Path(temporary)
        with console.status("training straight") as status:
            done = verify(request, kills, folder, seed, lambda number: status.update(f"{number} of {kills} kills"))
    if as_json:
        counts = {"kills": done.num_kills, "runs": done.num_runs, "files": done.num_files}
        print_json({**counts, "differences": done.differences})
    if done.differences:
        lines = "\n".join(f"  {line}" for line in done.differences)
        raise SamovarError(
            f"verify-resume: {done.num_kills} kills, and the results differ; expected the same bytes: look for state "
            f"that no snapshot keeps (a callback without state_dict, a generator of your own)\n{lines}"
        )
    if not as_json:
        print(f"{done.num_kills} kills in {done.num_runs} runs: all {done.num_files} files are the same")
