"""`samovar why`: what changed in the sources of a result since it was made."""

from pathlib import Path
from typing import Annotated

import typer


def why(directory: Annotated[Path, typer.Argument(help="A result directory.", metavar="DIR")]) -> None:
    """Why a result is stale: config keys, code and sources that changed up its chain; and what changed around it.

    Example: samovar why models/click_1
    """
    from samovar.experiments.why import explain
    from samovar.results import open_directory
    from samovar.results.environment import capture_environment, changed_environment

    result = open_directory(directory)
    stale = list(explain(result))
    for link, reasons in stale:
        print(f"{link.source.key} = {link.source.path}: {link.state}")
        for reason in reasons:
            print(f"  {reason}")
    if not stale:
        print(f"{result.name}: every source is as it was")
    changes = changed_environment(result.environment, capture_environment())
    if changes:
        print("made with another environment:")
        for change in changes:
            print(f"  {change}")
