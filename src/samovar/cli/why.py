"""`samovar why`: what changed in the sources of a result since it was made."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json


def why(
    directory: Annotated[Path, typer.Argument(help="A result directory.", metavar="DIR")],
    as_json: Json = False,
) -> None:
    """Say why a result is stale, and what changed around it.

    Names config keys, code, sources and raw files that changed up its chain, and what is not as it was on the machine.

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
        print(f"{result.name}: every source is as it was")
    if changes:
        print("made with another environment:")
        for change in changes:
            print(f"  {change}")
