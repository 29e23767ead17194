"""`samovar audit`: proves that nothing changed since results were finished."""

from typing import Annotated

import typer

from samovar.cli.sizes import readable


def audit(
    targets: Annotated[list[str], typer.Argument(help="Result directories, patterns of them.", metavar="DIR…")],
    chain: Annotated[bool, typer.Option("--chain", help="Also all results that they were made from.")] = False,
) -> None:
    """Read every byte of finished results again and name each file, config, script or source that changed.

    Example: samovar audit models/* tables/clicks
    """
    from samovar.experiments.audit import audit as check
    from samovar.experiments.audit import with_sources
    from samovar.experiments.targets import find_directories
    from samovar.results import open_directory

    has_changed = False
    directories = [open_directory(path) for path in find_directories(targets)]
    for directory in with_sources(directories) if chain else directories:
        done = check(directory)
        has_changed |= bool(done.differences)
        if not done.differences:
            print(f"{directory.name}: as it was finished, {done.num_files} files, {readable(done.size_bytes)}")
            continue
        count = len(done.differences)
        print(f"{directory.name}: {count} difference{'s' if count > 1 else ''}")
        for line in done.differences:
            print(f"  {line}")
    if has_changed:
        raise typer.Exit(1)
