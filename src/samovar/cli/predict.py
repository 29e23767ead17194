"""`samovar predict`: a model applied to a table."""

from pathlib import Path
from typing import Annotated

import typer

from samovar.cli.answer import Json, only_answer, print_json
from samovar.cli.console import open_notes, print_notes


def predict(
    model: Annotated[Path, typer.Argument(help="A model directory, finished or not.", metavar="MODEL_DIR")],
    table: Annotated[Path, typer.Option(help="A tensor table.", metavar="DIR")],
    keys: Annotated[str, typer.Option(help="Columns to find the examples again, with commas.")] = "",
    targets: Annotated[str, typer.Option(help="Columns to write beside and to measure by, with commas.")] = "",
    features: Annotated[str | None, typer.Option(help="Columns for the model; those of training if absent.")] = None,
    start_date: Annotated[str | None, typer.Option(help="The first hour.")] = None,
    end_date: Annotated[str | None, typer.Option(help="The first hour that is not taken.")] = None,
    datetime_format: Annotated[str | None, typer.Option(help="Of the dates; ISO if absent.")] = None,
    timezone: Annotated[str | None, typer.Option(help="Of the dates; UTC if absent.")] = None,
    out: Annotated[Path | None, typer.Option(help="Directory of the predictions.", metavar="DIR")] = None,
    as_json: Json = False,
) -> None:
    """Apply a model to a table, and write its predictions.

    A model in training is taken as its newest snapshot.

    Example: samovar predict models/click_1 --table tables/tomorrow --keys hit --out predictions/tomorrow
    """
    from samovar.training.predict import PredictRequest
    from samovar.training.predict import predict as run

    dates = {"start_date": start_date, "end_date": end_date, "datetime_format": datetime_format, "timezone": timezone}
    place = out or model.with_name(f"{model.resolve().name}_on_{table.resolve().name}")
    request = PredictRequest(
        model,
        table,
        place,
        _split(keys),
        _split(targets),
        None if features is None else _split(features),
        {key: value for key, value in dates.items() if value is not None},
    )
    console = open_notes()
    with only_answer(as_json):
        done = run(request, console)
    print_notes(done.notes, console)
    was_finished = done.num_examples is None
    if as_json:
        facts = {"directory": done.directory, "was_finished": was_finished}
        print_json({**facts, "examples": done.num_examples, "notes": done.notes})
    elif was_finished:
        print(f"{done.directory}: finished already, nothing to do")
    else:
        print(f"{done.directory}: {done.num_examples} predictions")


def _split(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]
