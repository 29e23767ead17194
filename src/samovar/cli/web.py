"""The commands `ui` and `report`: results as pages."""

import webbrowser
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.options import Json, Targets
from samovar.cli.output import print_json, print_line
from samovar.errors import BadInput

_EXTRA = "samovar[web]"


@contextmanager
def _needing_the_extra(command: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name is None or error.name.startswith("samovar"):
            raise
        raise BadInput(f"samovar {command} needs the package {error.name}: pip install '{_EXTRA}'") from error


def ui(
    folder: Annotated[Path, typer.Argument(help="A folder of results.", metavar="FOLDER")] = Path("."),
    port: Annotated[
        int | None,
        typer.Option(help="On 127.0.0.1. Default: 7266, or a free one.", min=0, max=65535, metavar="N"),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    actions: Annotated[
        bool, typer.Option("--actions", help="Allow stopping runs, and retrying and cancelling jobs.")
    ] = False,
    sql: Annotated[bool, typer.Option("--sql", help="Allow free SELECTs over runs and predictions.")] = False,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A host name by which a proxy of yours is asked. Repeatable.", metavar="NAME"),
    ] = None,
    db: Annotated[
        str | None,
        typer.Option(
            "--db",
            help="The queue to show. Default: queue.db in the folder or here.",
            metavar="URL",
            envvar="SAMOVAR_DB",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show every run of a folder as a web page, live.

    Reads only. The address contains a token: whoever has it can read the results. Ctrl-C ends it.

    Example: samovar ui models --no-browser
    """
    with _needing_the_extra("ui"):
        from samovar.ui import serve

        def announce(address: str) -> None:
            print_json({"folder": folder, "address": address}) if as_json else print_line(f"{folder}: {address}")
            if browser:
                webbrowser.open(address)

        serve(folder, port=port, queue=db, actions=actions, sql=sql, hosts=allow_host or (), announce=announce)


def report(
    runs: Targets,
    out: Annotated[Path, typer.Option(help="The HTML file to write.", metavar="FILE")],
    metric: Annotated[
        list[str] | None,
        typer.Option(help="A metric to plot, by full name or last part. Repeatable.", metavar="NAME"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write runs and what differs between them as one HTML file.

    The file needs no server and no other file: send it, or keep it as an artifact of CI.

    Example: samovar report models/click_* --out report.html
    """
    with _needing_the_extra("report"):
        from samovar.ui import write_report

        names = write_report(runs, out, metric or ())
    print_json({"file": out, "runs": names}) if as_json else print_line(f"{out}: {len(names)} runs")
