"""The option that every command of the queue has."""

from typing import Annotated

import typer

DEFAULT = "sqlite:///queue.db"
Db = Annotated[
    str,
    typer.Option(
        "--db",
        help="The queue: sqlite:///queue.db (one machine), or postgresql://user@host/name (many).",
        metavar="URL",
        envvar="SAMOVAR_DB",
    ),
]
