"""The commands `train`, `predict`, `metrics`, `embeddings` and `verify-resume`: one model from start to proof."""

from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.filesize import decimal
from rich.table import Table as Grid

from samovar.cli.options import AcceptDefaults, Conf, ConfigFile, Csv, Files, Json, ModelDir, Png, Script
from samovar.cli.output import (
    count_of,
    open_console,
    open_stderr,
    print_json,
    print_line,
    print_notes,
    print_table,
    reserve_stdout,
)
from samovar.errors import SamovarError

if TYPE_CHECKING:
    from samovar.embeddings import StoredTable

_BAR_WIDTH = 40
_COUNTERS = ("inserted", "reset", "freed", "skipped")


def train(
    config: ConfigFile,
    script: Script,
    conf: Conf = None,
    file: Files = None,
    out: Annotated[str | None, typer.Option(help="Directory of the model.", metavar="DIR")] = None,
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
    from samovar.config import parse_override
    from samovar.training import make_request, run_training, try_batches

    if as_json and dry_run is not None:
        raise typer.BadParameter("--dry-run prints text for people; remove --json")
    request = make_request(config, script, list(map(parse_override, conf or ())), file or (), out)
    request = replace(request, accept_script=accept_script, accept_defaults=accept_defaults)
    if dry_run is not None:
        print_line(try_batches(request, dry_run))
        return
    console = open_stderr()
    with reserve_stdout(as_json):
        done = run_training(request, console)
    if as_json:
        print_json({"directory": done.directory, "was_finished": done.was_finished, "notes": done.notes})
    else:
        print_line(f"{done.directory}: {'already finished, nothing to do' if done.was_finished else 'finished'}")


class Epoch(StrEnum):
    LAST = "last"
    BEST = "best"


def predict(
    model: ModelDir,
    table: Annotated[str, typer.Option(help="A tensor table.", metavar="DIR")],
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
    out: Annotated[str | None, typer.Option(help="Directory of the predictions.", metavar="DIR")] = None,
    epoch: Annotated[
        Epoch, typer.Option(help="The model as training ended, or after its best evaluation.", metavar="last/best")
    ] = Epoch.LAST,
    as_json: Json = False,
) -> None:
    """Apply a model to a table and write its predictions.

    A model that is still training is used as of its newest snapshot.

    Example: samovar predict models/click_1 --table tables/new --keys hit --out predictions/new
    """
    from samovar.config import as_place
    from samovar.training import PredictRequest, run_prediction

    dates = {"start_date": start_date, "end_date": end_date, "datetime_format": datetime_format, "timezone": timezone}
    request = PredictRequest(
        as_place(model, "the model"),
        as_place(table, "--table"),
        None if out is None else as_place(out, "--out"),
        _split(keys),
        _split(targets),
        None if features is None else _split(features),
        {key: value for key, value in dates.items() if value is not None},
        epoch="best" if epoch is Epoch.BEST else "last",
    )
    console = open_stderr()
    with reserve_stdout(as_json):
        done = run_prediction(request, console)
    was_finished = done.num_examples is None
    if as_json:
        facts = {"directory": done.directory, "was_finished": was_finished}
        print_json({**facts, "examples": done.num_examples, "notes": done.notes})
    elif was_finished:
        print_line(f"{done.directory}: already finished, nothing to do")
    else:
        print_line(f"{done.directory}: {done.num_examples} predictions")


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


class Span(StrEnum):
    HOUR = "hour"
    DAY = "day"


def metrics(
    model: ModelDir,
    by: Annotated[Span, typer.Option(help="One row per hour or per day.", metavar="hour/day")] = Span.HOUR,
    csv: Csv = None,
    png: Png = None,
    as_json: Json = False,
) -> None:
    """Show the metrics of evaluations by hour, day or epoch.

    Prints a table on a terminal and CSV to a pipe.

    Example: samovar metrics models/click_1 --by day --png click_1.png
    """
    from samovar.scoring import read_quality

    found = read_quality(model, "day" if by is Span.DAY else "hour")
    if not found.is_measured:
        need = "metrics need a target, and one predicted number per example or per class"
        print_notes([f"{model}: nothing to measure: {need}; let `predict` return a tensor [B] or [B, K]"])
    if found.best is not None:
        best = found.best
        print_notes([f"best: {best['trained']}, {best['metric']} = {best['value']:.6g}; --epoch best predicts with it"])
    if png is not None:
        found.save(png)

    def show() -> None:
        grid = Grid(*(column.replace("_", " ") for column in found.columns))
        for row in found.rows:
            grid.add_row(*(_show_number(row.get(column)) for column in found.columns))
        open_console().print(grid)

    print_table(
        to_csv=found.to_csv,
        to_json=lambda: found.rows,
        show=show,
        csv_file=csv,
        as_json=as_json,
        is_drawn=png is not None,
    )


def _show_number(value: Any) -> str:
    return "" if value is None else f"{value:.5f}" if isinstance(value, float) else str(value)


def embeddings(
    directory: ModelDir,
    ids: Annotated[
        str | None, typer.Option(help="Show the vectors of these ids, or strings of a hashed column.", metavar="A,B,…")
    ] = None,
    table: Annotated[str | None, typer.Option(help="The hash table, if the model has several.", metavar="NAME")] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="Write ids and vectors to a Parquet file; all ids without --ids.", metavar="FILE"),
    ] = None,
    as_json: Json = False,
) -> None:
    """Show the hash tables of a model: sizes, ages, vectors.

    With --ids, it shows the vectors of ids; with --out, it writes a file of them.

    A model that is still training is shown as of its newest snapshot.

    Example: samovar embeddings models/click_1
    """
    from samovar.embeddings import stored_table, stored_tables

    if ids is not None or table is not None or out is not None:
        chosen = None if ids is None else _as_numbers(_split(ids))
        _show_vectors(stored_table(directory, table), chosen, out, as_json)
        return
    tables = stored_tables(directory)
    if as_json:
        print_json(list(map(_embedding_answer, tables)))
        return
    console = open_console()
    console.print(_embedding_grid(tables))
    for each in tables:
        console.print(_age_histogram(each))


def _as_numbers(ids: list[str]) -> list[int] | list[str]:
    """Integers if all of them are, else the strings of a hashed column."""
    try:
        return [int(each) % 2**64 for each in ids]
    except ValueError:
        return ids


def _show_vectors(table: "StoredTable", ids: list[int] | list[str] | None, out: Path | None, as_json: bool) -> None:
    if out is not None:
        count = table.export(out, ids)
        print_json({"file": out, "ids": count}) if as_json else print_line(f"{out}: {count_of(count, 'vector')}")
        return
    if ids is None:
        raise typer.BadParameter("--table needs --ids or --out: which vectors to show, or where to write all of them")
    rows = [
        {"id": shown, "is_known": bool(known), "vector": vector}
        for shown, known, vector in zip(ids, table.has(ids), table.weights_of(ids).tolist(), strict=True)
    ]
    if as_json:
        print_json(rows)
        return
    grid = Grid("id", "vector", box=None)
    for row in rows:
        grid.add_row(
            str(row["id"]), " ".join(f"{each:.6g}" for each in row["vector"]) if row["is_known"] else "unknown"
        )
    open_console().print(grid)


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
        "ages": table.count_ages(),
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


def _group_ages(counts: dict[int, int]) -> list[tuple[str, int]]:
    spans, first, width = [], 0, 1
    while first <= max(counts, default=0):
        last = first + width - 1
        count = sum(count for age, count in counts.items() if first <= age <= last)
        spans.append((str(first) if width == 1 else f"{first}-{last}", count))
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
    from samovar.config import parse_override
    from samovar.provenance import verify_resume as verify
    from samovar.training import make_request

    request = make_request(config, script, list(map(parse_override, conf or ())), file or ())
    with open_stderr().status("training without kills") as status:
        report = lambda number: status.update(f"{number} of {kills} kills")  # noqa: E731  # of one line
        done = verify(request, kills, out, seed=seed, report=report)
    if as_json:
        counts = {"kills": done.num_kills, "runs": done.num_runs, "files": done.num_files}
        print_json({**counts, "differences": done.differences})
    kills_done = count_of(done.num_kills, "kill")
    if done.differences:
        lines = "\n".join(f"  {line}" for line in done.differences)
        raise SamovarError(
            f"verify-resume: the results differ after {kills_done}. Look for state that no snapshot keeps: "
            f"a callback without state_dict, or a random generator of your own\n{lines}"
        )
    if not as_json:
        print_line(f"{kills_done} in {count_of(done.num_runs, 'run')}: all {done.num_files} files are the same")
