"""`samovar audit`: proves that nothing changed since results were finished."""

from typing import TYPE_CHECKING, Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.sizes import readable

if TYPE_CHECKING:
    from samovar.provenance.audit import AuditReport


def audit(
    targets: Annotated[list[str], typer.Argument(help="Result directories, patterns of them.", metavar="DIR…")],
    chain: Annotated[bool, typer.Option("--chain", help="Also all results that they were made from.")] = False,
    as_json: Json = False,
) -> None:
    """Prove that no byte of finished results has changed.

    Reads all again; each file, config, script or source that changed is named, with exit code 1.

    Example: samovar audit models/* tables/clicks
    """
    from samovar.provenance.audit import audit as check
    from samovar.provenance.chain import with_sources
    from samovar.results import open_directory
    from samovar.runs.find import find_directories

    answer = []
    directories = [open_directory(path) for path in find_directories(targets)]
    for directory in with_sources(directories) if chain else directories:
        done = check(directory)
        answer.append(
            {
                "directory": directory.name,
                "files": done.num_files,
                "bytes": done.size_bytes,
                "differences": done.differences,
            }
        )
        if not as_json:
            _print(directory.name, done)
    if as_json:
        print_json(answer)
    if any(each["differences"] for each in answer):
        raise typer.Exit(1)


def _print(name: str, done: "AuditReport") -> None:
    if not done.differences:
        print(f"{name}: as it was finished, {done.num_files} files, {readable(done.size_bytes)}")
        return
    count = len(done.differences)
    print(f"{name}: {count} difference{'s' if count > 1 else ''}")
    for line in done.differences:
        print(f"  {line}")
