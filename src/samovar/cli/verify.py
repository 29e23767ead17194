"""The commands `audit`, `replay` and `checksum`: have results or files changed, and can a result be rebuilt?"""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.filesize import decimal

from samovar.cli.options import Json
from samovar.cli.output import count_of, open_stderr, print_json, print_line, print_notes, reserve_stdout

if TYPE_CHECKING:
    from samovar.provenance import AuditReport, ReplayReport

_KINDS = ("changed", "new", "removed")


def audit(
    targets: Annotated[
        list[str], typer.Argument(help="Result directories, folders or glob patterns.", metavar="TARGET")
    ],
    chain: Annotated[bool, typer.Option("--chain", help="Also check all results that they were made from.")] = False,
    as_json: Json = False,
) -> None:
    """Check that finished results have not changed.

    Reads every byte and lists each changed file, config, script or source. Exit code 1 if any.

    Example: samovar audit models/* tables/clicks
    """
    from samovar.provenance import audit as check
    from samovar.provenance import find_sources
    from samovar.runs import find_directories

    answer = []
    paths = find_directories(targets)
    for path in find_sources(paths) if chain else paths:
        done = check(path)
        facts = {"files": done.num_files, "bytes": done.size_bytes, "differences": done.differences}
        answer.append({"directory": str(path), **facts, "notes": list(done.notes)})
        if not as_json:
            _print_audit(str(path), done)
    if as_json:
        print_json(answer)
    if any(each["differences"] for each in answer):
        raise typer.Exit(1)


def _print_audit(name: str, done: "AuditReport") -> None:
    if not done.differences:
        print_line(f"{name}: unchanged, {count_of(done.num_files, 'file')}, {decimal(done.size_bytes)}")
    else:
        print_line(f"{name}: {count_of(len(done.differences), 'difference')}")
    for line in [*done.differences, *(f"note: {note}" for note in done.notes)]:
        print_line(f"  {line}")


def replay(
    directory: Annotated[str, typer.Argument(help="A finished result directory.", metavar="DIR")],
    into: Annotated[str | None, typer.Option(help="Keep the new result in this directory.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Rebuild a result and compare it bit for bit.

    Uses the config and code that the directory holds. Exit code 1 if they differ.

    Example: samovar replay models/click_1
    """
    from samovar.provenance import replay as rebuild

    console = open_stderr()
    with reserve_stdout(as_json):
        done = rebuild(directory, into, console)
    if as_json:
        answer = {"files": done.num_files, "differences": done.differences, "environment": done.environment}
        print_json({"directory": directory, **answer})
    else:
        _print_replay(directory, done)
    if done.differences:
        raise typer.Exit(1)


def _print_replay(directory: str, done: "ReplayReport") -> None:
    verdict = "differs" if done.differences else "equal"
    print_line(f"{directory}: {verdict}, {count_of(done.num_files, 'file')} compared")
    for line in done.differences:
        print_line(f"  {line}")
    if done.environment:
        print_line("made in another environment:")
    for line in done.environment:
        print_line(f"  {line}")


def checksum(
    paths: Annotated[list[str], typer.Argument(help="A folder, or files and folders.", metavar="PATH")],
    against: Annotated[
        Path | None, typer.Option(help="Compare with this list, and show what differs.", metavar="LIST")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the list to this new file, in the format of sha256sum.", metavar="LIST")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read every file, even if it is cached.")] = False,
    as_json: Json = False,
) -> None:
    """Compute one SHA-256 of a folder and list what changed.

    Reads only files that changed, on all cores. Exit code 1 if anything differs from --against.

    Example: samovar checksum data --against data.sha256
    """
    from samovar.runs import Changes, find_changes, read_list, write_list
    from samovar.runs import checksum as compute

    start = time.perf_counter()
    earlier = read_list(against) if against is not None else None
    found = compute(paths, use_cache=not no_cache)
    changes = find_changes(earlier, found.digests) if earlier is not None else Changes([], [], [])
    if save is not None:
        write_list(save, found.digests)
    if as_json:
        lists = {kind: getattr(changes, kind) for kind in _KINDS} if earlier is not None else {}
        counts = {"files": found.num_files, "bytes": found.num_bytes, "read": found.num_read}
        print_json({"digest": found.digest, **counts, **lists})
    else:
        for kind in _KINDS:
            for name in getattr(changes, kind):
                print_line(f"{kind:8}{name}")
        print_line(f"{found.digest}  {' '.join(map(str, paths))}")
        cached = found.num_files - found.num_read
        seconds = time.perf_counter() - start
        total = f"{count_of(found.num_files, 'file')}, {decimal(found.num_bytes)}"
        print_notes([f"{total}: {found.num_read:,} read, {cached:,} cached; {seconds:.2f} s"])
    if changes:
        raise typer.Exit(1)
