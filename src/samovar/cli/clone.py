"""`samovar clone`: a config copied with changes, under the next free name beside it."""

import os
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, print_json
from samovar.cli.console import print_notes
from samovar.config import parse_override
from samovar.config.diff import show_value
from samovar.runs.clone import clone as make_clone
from samovar.runs.find import find_targets


def clone(
    config: Annotated[Path, typer.Argument(help="A config, or a result directory.", metavar="CONFIG")],
    conf: Annotated[list[str], typer.Option(help="Keys to change, as JSON; repeatable.")],
    as_json: Json = False,
) -> None:
    """Copy a config with changes, under the next free name.

    online.json becomes onlinea.json, then onlineb.json; the copy remembers its parent.

    Example: samovar clone online.json --conf '{"model.lr": 0.01}'
    """
    targets = find_targets([config])
    if len(targets) > 1:
        raise typer.BadParameter(f"{config} holds {len(targets)} results; expected one: name it")
    made = make_clone(targets[0], [parse_override(text) for text in conf])
    for key, near in made.new_keys.items():
        guess = f"; did you mean {near!r}?" if near else ""
        print_notes([f"note: {config} has no key {key!r}, so the clone has one more{guess}"])
    if as_json:
        changes = {key: {"old": old, "new": new} for key, (old, new) in made.changes.rows.items()}
        print_json({"path": os.path.relpath(made.path), "changes": changes, "new_keys": list(made.new_keys)})
        return
    for key, (old, new) in made.changes.rows.items():
        print(f"  {key}: {show_value(old) or '(none)'} → {show_value(new) or '(none)'}")
    print(os.path.relpath(made.path))
