"""`samovar checksum`: one digest of a folder, and which files changed since a list was made."""

import time
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import open_notes
from samovar.cli.sizes import readable


def checksum(
    paths: Annotated[list[Path], typer.Argument(help="A folder, or files and folders.", metavar="DIR|FILE …")],
    against: Annotated[
        Path | None, typer.Option(help="A list of an earlier time: tell what differs.", metavar="LIST")
    ] = None,
    save: Annotated[
        Path | None, typer.Option(help="Write the list here, as sha256sum does; it must not exist.", metavar="LIST")
    ] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Read every file, known or not.")] = False,
    as_json: Json = False,
) -> None:
    """Give one SHA-256 of a folder, and say what changed.

    Files are read on all cores, and only when they changed; exit code 1 if something differs.

    Example: samovar checksum data --against data.sha256
    """
    from samovar.runs.checksum import Changes, compute_checksums, find_changes, read_list, write_list

    start = time.perf_counter()
    earlier = read_list(against) if against is not None else None
    found = compute_checksums(paths, use_cache=not no_cache)
    changes = find_changes(earlier, found.digests) if earlier is not None else Changes([], [], [])
    if save is not None:
        write_list(save, found.digests)
    digest, kinds = found.digest, ("changed", "new", "removed")
    if as_json:
        lists = {kind: getattr(changes, kind) for kind in kinds} if earlier is not None else {}
        counts = {"files": found.num_files, "bytes": found.num_bytes, "read": found.num_read}
        print_json({"digest": digest, **counts, **lists})
    else:
        for kind in kinds:
            for name in getattr(changes, kind):
                print(f"{kind:8}{name}")
        print(f"{digest}  {' '.join(map(str, paths))}")
        open_notes().print(
            f"{found.num_files} files, {readable(found.num_bytes)}; {found.num_read} read, the others were known; "
            f"{time.perf_counter() - start:.2f} s"
        )
    if changes:
        raise typer.Exit(1)
