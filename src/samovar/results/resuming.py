"""What must hold before an existing directory is written again: the kind, the config and the code of its plan."""

from contextlib import suppress
from dataclasses import asdict
from typing import Any

from samovar.config import compare
from samovar.errors import Conflict, SamovarError
from samovar.results.code import diff_code, find_changed_files
from samovar.results.directory import ALL_FILES, SCRIPT, ResultDirectory
from samovar.results.lineage import digest
from samovar.results.plan import ResultPlan
from samovar.results.snapshot import committed_snapshots, read_snapshot
from samovar.store import Lease, write_file


def check_config(directory: ResultDirectory, plan: ResultPlan) -> list[str]:
    """Refuse another kind or config; return a note for each setting that may differ, and does."""
    old, new = directory.lineage, plan.lineage
    if old.kind != new.kind:
        raise Conflict(f"{directory.name} is {directory.describe_kind()}. Use another directory")
    found = compare(directory.config, plan.config, old.inputs, new.inputs, new.kind)
    if found.conflicts.rows:
        is_bare = not (directory.is_finished or directory.is_live or committed_snapshots(directory.store))
        raise Conflict(
            f"{directory.name} belongs to another config. The difference:\n"
            f"{found.conflicts.to_csv()}Use another directory, or the config that it was made with"
            f"{', or remove the directory: it has no snapshot' if is_bare else ''}"
        )
    return [f"{key} changed since this run started: {old} → {new}" for key, (old, new) in found.allowed.rows.items()]


def describe_new_code(directory: ResultDirectory, plan: ResultPlan) -> list[str]:
    """A note, if the code is not what made the finished result."""
    changes = diff_code(directory, plan.code_files) if plan.code_files else ""
    return (
        [f"the code has changed since this result was made, and the result is not made again{changes}"]
        if changes
        else []
    )


def settle_code(directory: ResultDirectory, plan: ResultPlan, lease: Lease, *, accept_script: bool) -> list[str]:
    """Refuse other code, or accept it: the old code is kept beside the new, and a note says when it changed."""
    new = plan.lineage.code
    notes = []
    if changed := find_changed_files(directory, plan.code_files):
        if not accept_script:
            difference = diff_code(directory, plan.code_files)
            raise Conflict(
                f"{directory.name}: {', '.join(changed)} changed since this run started. Restore the old code, "
                f"use a new directory, or accept the new code with --accept-script (in Python accept_script=True)"
                f"{difference}"
            )
        notes = [_accept(directory, plan, lease, changed)]
    store = directory.store
    for name, data in plan.code_files.items():  # a kill between the commit and here leaves the old code
        if store.size(name) is None or digest(store.read(name)) != new[name]:
            write_file(store, name, data)
    for entry in store.list(ALL_FILES):  # files that the code no longer imports
        if entry.path not in new and "__pycache__" not in entry.path:
            store.remove(entry.path)
    return notes


def _accept(directory: ResultDirectory, plan: ResultPlan, lease: Lease, changed: list[str]) -> str:
    changes = [asdict(change) for change in directory.code_changes]
    number = len(changes) + 1
    for name in changed:
        if name in directory.code:
            write_file(directory.store, archive_name(name, number), directory.store.read(name))
    position = _newest_position(directory)
    changes.append({"number": number, "files": changed, "position": position})
    lease.commit(code=dict(plan.lineage.code), script_changes=changes)
    when = "before the first snapshot" if position is None else f"at position {position}"
    return f"the code changed {when}: {', '.join(changed)}; the old code is kept"


def _newest_position(directory: ResultDirectory) -> Any:
    """The position of the newest good snapshot; None before the first."""
    for name in committed_snapshots(directory.store):
        with suppress(SamovarError):
            return read_snapshot(directory.store, name).position
    return None


def archive_name(name: str, number: int) -> str:
    """The path of old code after change `number`."""
    if name == SCRIPT:
        return f"script.{number}.py"
    return name.replace(f"{ALL_FILES}/", f"{ALL_FILES}.{number}/", 1)
