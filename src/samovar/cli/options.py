"""Options and arguments that several commands share, so that they read the same everywhere."""

from pathlib import Path
from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print one JSON document, for programs.")]
Conf = Annotated[
    list[str] | None,
    typer.Option(help="Config keys to change, as a JSON object. Repeatable.", metavar="JSON"),
]

ConfigFile = Annotated[str, typer.Argument(help="The config, a JSON file.", metavar="CONFIG")]
Script = Annotated[str, typer.Option(help="A Python file with build(params) -> Learner.", metavar="FILE")]
Files = Annotated[
    list[str] | None,
    typer.Option("--file", help="A file for build(params, files), by name. Repeatable.", metavar="NAME=PATH"),
]
AcceptDefaults = Annotated[
    bool,
    typer.Option("--accept-defaults", help="Accept script defaults that changed since an earlier run."),
]

ResultDir = Annotated[str, typer.Argument(help="A result directory.", metavar="DIR")]
ModelDir = Annotated[str, typer.Argument(help="A model directory, finished or not.", metavar="DIR")]
Targets = Annotated[
    list[str],
    typer.Argument(help="Result directories, configs, folders or glob patterns.", metavar="TARGET"),
]

Csv = Annotated[Path | None, typer.Option(help="Write the rows to this CSV file.", metavar="FILE")]
Png = Annotated[Path | None, typer.Option(help="Draw to this PNG file.", metavar="FILE")]
Svg = Annotated[Path | None, typer.Option(help="Draw to this SVG file.", metavar="FILE")]

DEFAULT_DB = "sqlite:///queue.db"
Db = Annotated[
    str,
    typer.Option(
        "--db",
        help="The queue: a SQLite file, or postgresql://user@host/name for many machines.",
        metavar="URL",
        envvar="SAMOVAR_DB",
    ),
]
MaxAttempts = Annotated[int, typer.Option(help="Give up after this many failures or dead workers.", min=1, metavar="N")]
