"""The commands `train`, `predict`, `metrics`, `embeddings` and `verify-resume`: one model from start to proof."""

import tempfile
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table as Grid

from samovar.cli.options import AcceptDefaults, Conf, ConfigFile, Csv, Files, Json, ModelDir, Png, Script
from samovar.cli.output import (
    open_console,
    open_stderr,
    print_json,
    print_notes,
    print_table,
    reserve_stdout,
    writing_to,
)
from samovar.errors import NotAResult, SamovarError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from samovar.embeddings.stored import StoredTable

_BAR_WIDTH = 40
_COUNTERS = ("inserted", "reset", "freed", "skipped")


def train(
    config: ConfigFile,
    script: Script,
    conf: Conf = None,
    file: Files = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the model.", metavar="DIR")] = None,
    accept_script: Annotated[
        bool, typer.Option("--accept-script", help="Accept a script that changed since the run started.")
    ] = False,
    accept_defaults: AcceptDefaults = False,
    dry_run: Annotated[
        int | None,
        typer.Option(help="Train only N minibatches, in a temporary directory.", metavar="N", min=1),
    ] = None,
    as_json: Json = False,
) -> None:
    """Train a model, or resume one that was stopped or killed.

    Example: samovar train online.json --script model.py --out models/click_1
    """
    from dataclasses import replace

    from samovar.training.request import make_request
    from samovar.training.train import train as run_training

    if as_json and dry_run is not None:
        raise typer.BadParameter("--dry-run prints text for people; remove --json")
    request = make_request(config, script, conf or [], file or [], out)
    request = replace(request, accept_script=accept_script, accept_defaults=accept_defaults)
    if dry_run is not None:
        from samovar.training.dry_run import try_batches

        print(try_batches(request, dry_run))
        return
    console = open_stderr()
    with reserve_stdout(as_json):
        done = run_training(request, console)
    if done.was_finished:  # else they were printed at the start
        print_notes(done.notes, console)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
    else:
        print(f"{done.directory}: {'already finished, nothing to do' if done.was_finished else 'finished'}")


def predict(
    model: ModelDir,
    table: Annotated[Path, typer.Option(help="A tensor table.", metavar="DIR")],
    keys: Annotated[
        str, typer.Option(help="Columns that identify an example, written beside it.", metavar="A,B,…")
    ] = "",
    targets: Annotated[
        str, typer.Option(help="Columns to write beside the predictions and measure them by.", metavar="A,B,…")
    ] = "",
    features: Annotated[
        str | None, typer.Option(help="Columns for the model. Default: those of training.", metavar="A,B,…")
    ] = None,
    start_date: Annotated[str | None, typer.Option(help="The first hour.", metavar="DATE")] = None,
    end_date: Annotated[str | None, typer.Option(help="The hour to stop before.", metavar="DATE")] = None,
    datetime_format: Annotated[
        str | None, typer.Option(help="Format of the dates. Default: ISO.", metavar="FORMAT")
    ] = None,
    timezone: Annotated[str | None, typer.Option(help="Time zone of the dates. Default: UTC.", metavar="ZONE")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the predictions.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Apply a model to a table and write its predictions.

    A model that is still training is used as of its newest snapshot.

    Example: samovar predict models/click_1 --table tables/new --keys hit --out predictions/new
    """
    from samovar.training.predict import PredictRequest
    from samovar.training.predict import predict as run_prediction

    dates = {"start_date": start_date, "end_date": end_date, "datetime_format": datetime_format, "timezone": timezone}
    request = PredictRequest(
        model,
        table,
        out or model.with_name(f"{model.resolve().name}_on_{table.resolve().name}"),
        _split(keys),
        _split(targets),
        None if features is None else _split(features),
        {key: value for key, value in dates.items() if value is not None},
    )
    console = open_stderr()
    with reserve_stdout(as_json):
        done = run_prediction(request, console)
    print_notes(done.notes, console)
    was_finished = done.num_examples is None
    if as_json:
        facts = {"directory": done.directory, "was_finished": was_finished}
        print_json({**facts, "examples": done.num_examples, "notes": done.notes})
    elif was_finished:
        print(f"{done.directory}: already finished, nothing to do")
    else:
        print(f"{done.directory}: {done.num_examples} predictions")


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"


def metrics(
    model: ModelDir,
    by: Annotated[Span, typer.Option(help="One row per hour or per day.")] = Span.HOUR,
    csv: Csv = None,
    png: Png = None,
    as_json: Json = False,
) -> None:
    """Show AUC, log-loss and calibration by hour or day.

    Prints a table on a terminal and CSV to a pipe.

    Example: samovar metrics models/click_1 --by day --png click_1.png
    """
    from samovar.results import open_directory
    from samovar.scoring.quality import COLUMNS, draw, evaluations, is_measured, to_csv

    directory = open_directory(model)
    rows = evaluations(directory, "day" if by is Span.DAY else "hour")
    if not rows and "evaluation" in directory.config:
        raise NotAResult(f"{model}: no evaluation has results yet; they appear with the next snapshot")
    if not rows:
        raise NotAResult(f"{model}: has no evaluations: its config has no section 'evaluation'")
    if not is_measured(rows):
        need = "AUC, log-loss and calibration need a target and one predicted number per example"
        print_notes([f"{model}: nothing to measure: {need}; let `predict` return a tensor [B] or a dict of them"])
    if png is not None:
        with writing_to(png):
            draw(rows, png)

    def show() -> None:
        grid = Grid(*(column.replace("_", " ") for column in COLUMNS))
        for row in rows:
            grid.add_row(*(_show_number(row[column]) for column in COLUMNS))
        open_console().print(grid)

    print_table(
        to_csv=lambda: to_csv(rows),
        to_json=lambda: rows,
        show=show,
        csv_file=csv,
        as_json=as_json,
        is_drawn=png is not None,
    )


def _show_number(value: Any) -> str:
    return "" if value is None else f"{value:.5f}" if isinstance(value, float) else str(value)


def embeddings(
    directory: ModelDir,
    as_json: Json = False,
) -> None:
    """Show the hash tables of a model: sizes and ages of ids.

    A model that is still training is shown as of its newest snapshot.

    Example: samovar embeddings models/click_1
    """
    from samovar.embeddings.stored import stored_tables
    from samovar.results import open_directory

    found = open_directory(directory)
    tables = list(stored_tables(found.load_model().tree))
    if not tables:
        raise NotAResult(f"{found.name}: the model has no hash tables")
    if as_json:
        print_json(list(map(_embedding_answer, tables)))
        return
    console = open_console()
    console.print(_embedding_grid(tables))
    for table in tables:
        console.print(_age_histogram(table))


def _embedding_answer(table: "StoredTable") -> dict[str, Any]:
    return {
        "place": table.place,
        "name": table.name,
        "optimizer": table.optimizer,
        "dim": table.dim,
        "ttl": table.ttl,
        "ids": table.num_ids,
        "bytes": table.size_bytes,
        **{name: table.counters[name] for name in _COUNTERS},
        "ages": table.count_ages().tolist(),
    }


def _embedding_grid(tables: list["StoredTable"]) -> Grid:
    headings = ("table", "optimizer", "dim", "ttl", "ids", "size", "inserted", "reset", "freed", "skipped updates")
    grid = Grid(*headings, box=None)
    for table in tables:
        grid.add_row(
            f"{table.place}: {table.name}",
            table.optimizer,
            str(table.dim),
            "never" if table.ttl is None else str(table.ttl),
            f"{table.num_ids:,}",
            decimal(table.size_bytes),
            *(f"{table.counters[name]:,}" for name in _COUNTERS),
        )
    num_ids, size_bytes = sum(table.num_ids for table in tables), sum(table.size_bytes for table in tables)
    grid.add_row("all", "", "", "", f"{num_ids:,}", decimal(size_bytes))
    return grid


def _age_histogram(table: "StoredTable") -> Grid:
    """One bar per span of ages; each span is twice as long as the one before."""
    spans = _group_ages(table.count_ages())
    longest = max((count for _, count in spans), default=0)
    grid = Grid(f"{table.name}: URIs since last used", "ids", "", box=None)
    for name, count in spans:
        grid.add_row(name, f"{count:,}", "█" * round(_BAR_WIDTH * count / longest) if longest else "")
    return grid


def _group_ages(counts: "NDArray[np.int64]") -> list[tuple[str, int]]:
    spans, first, width = [], 0, 1
    while first < len(counts):
        last = first + width - 1
        spans.append((str(first) if width == 1 else f"{first}-{last}", int(counts[first : last + 1].sum())))
        first, width = last + 1, width * 2 if first else 1
    return spans


def verify_resume(
    config: ConfigFile,
    script: Script,
    kills: Annotated[int, typer.Option(help="How many times to kill the run.", min=1, metavar="N")] = 10,
    conf: Conf = None,
    file: Files = None,
    seed: Annotated[int, typer.Option(help="Random seed of the kills.", metavar="N")] = 0,
    out: Annotated[Path | None, typer.Option(help="Keep the runs in this directory.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Check that a training run survives kills bit for bit.

    Trains once without interruption and once with random kills, then compares every byte.

    Example: samovar verify-resume online.json --script model.py --kills 30
    """
    from samovar.provenance.verify import verify_resume as verify
    from samovar.training.request import make_request

    request = make_request(config, script, conf or [], file or [])
    with tempfile.TemporaryDirectory(prefix="samovar-verify-") as temporary:
        folder = out or Path(temporary)
        with open_stderr().status("training without kills") as status:
            done = verify(request, kills, folder, seed, lambda number: status.update(f"{number} of {kills} kills"))
    if as_json:
        counts = {"kills": done.num_kills, "runs": done.num_runs, "files": done.num_files}
        print_json({**counts, "differences": done.differences})
    if done.differences:
        lines = "\n".join(f"  {line}" for line in done.differences)
        raise SamovarError(
            f"verify-resume: the results differ after {done.num_kills} kills. Look for state that no snapshot keeps: "
            f"a callback without state_dict, or a random generator of your own\n{lines}"
        )
    if not as_json:
        print(f"{done.num_kills} kills in {done.num_runs} runs: all {done.num_files} files are the same")
