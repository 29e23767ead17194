"""`samovar audit`: proves that nothing changed since results were finished."""

from typing import Annotated

import typer

from samovar.cli.sizes import readable
from samovar.errors import BadInput


def audit(
    targets: Annotated[list[str], typer.Argument(help="Result directories, patterns of them.", metavar="DIR…")],
) -> None:
    """Read every byte of finished results again and name each file, config, script or source that changed.

    Example: samovar audit models/* tables/clicks
    """
    from samovar.experiments.audit import audit as check
    from samovar.experiments.targets import find_targets

    directories = [target.directory for target in find_targets(targets) if target.directory is not None]
    if not directories:
        raise BadInput(f"{', '.join(targets)}: no result directory among these; expected one: check the names")
    has_changed = False
    for directory in directories:
        done = check(directory)
        has_changed |= bool(done.differences)
        if not done.differences:
            print(f"{directory.name}: as it was finished, {done.num_files} files, {readable(done.size_bytes)}")
            continue
        print(f"{directory.name}: {len(done.differences)} differences")
        for line in done.differences:
            print(f"  {line}")
    if has_changed:
        raise typer.Exit(1)
