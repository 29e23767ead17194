"""The commands `export` and `serve`: from a trained model to an endpoint."""

from enum import StrEnum
from typing import Annotated

import typer

from samovar.cli.options import Json, ModelDir
from samovar.cli.output import print_json, print_line, print_notes
from samovar.cli.training import Epoch
from samovar.errors import BadInput


class Weights(StrEnum):
    FP32 = "fp32"
    FP16 = "fp16"
    INT8 = "int8"


def export(
    model: ModelDir,
    out: Annotated[str, typer.Argument(help="The directory of the bundle.", metavar="OUT")],
    snapshot: Annotated[
        bool, typer.Option("--snapshot", help="Export the newest snapshot of a model that is still training.")
    ] = False,
    epoch: Annotated[
        Epoch, typer.Option(help="The model as training ended, or after its best evaluation.", metavar="last/best")
    ] = Epoch.LAST,
    weights: Annotated[
        Weights, typer.Option(help="Bytes per weight on disk. Only fp32 keeps every bit.", metavar="fp32/fp16/int8")
    ] = Weights.FP32,
    check: Annotated[
        str | None, typer.Option(help="A tensor table to check the bundle on. Default: made-up rows.", metavar="DIR")
    ] = None,
    onnx: Annotated[bool, typer.Option("--onnx", help="Add model.onnx for other runtimes.")] = False,
    no_exact: Annotated[
        bool,
        typer.Option("--no-exact", help="Score all rows of a request at once; the last bits may then differ."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Make a bundle that scores raw rows without a script.

    The bundle is compared with the model's own code before it is finished.

    Example: samovar export models/click_1 bundles/click_1
    """
    from samovar.config import as_place
    from samovar.training import ExportRequest, run_export

    request = ExportRequest(
        as_place(model, "the model"),
        as_place(out, "OUT"),
        snapshot,
        "best" if epoch is Epoch.BEST else "last",
        weights.value,
        None if check is None else as_place(check, "--check"),
        onnx,
        exact=not no_exact,
    )
    done = run_export(request)
    if as_json:
        print_json({"directory": str(done.directory), "was_finished": done.was_finished, "notes": done.notes})
        return
    print_line(f"{done.directory}: {'already finished, nothing to do' if done.was_finished else 'finished'}")
    print_notes(done.notes)


def serve(
    bundle: Annotated[str, typer.Argument(help="A bundle, or a model directory whose run publishes.", metavar="DIR")],
    port: Annotated[int, typer.Option(help="The port; 0 takes a free one.", min=0, max=65535, metavar="N")] = 8000,
    host: Annotated[
        str, typer.Option(help="The address to listen on. Default: only this machine.", metavar="HOST")
    ] = "127.0.0.1",
    token: Annotated[
        str | None,
        typer.Option(
            help="What requests must bring as `Authorization: Bearer TOKEN`.", metavar="TOKEN", envvar="SAMOVAR_TOKEN"
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Answer requests for scores over HTTP.

    POST /score takes rows as JSON or as an Arrow stream. GET /signature, /metrics and /v2/health/ready tell more.

    Example: samovar serve bundles/click_1
    """
    try:
        from samovar.serving import serve as serve_model
    except ModuleNotFoundError as error:
        if error.name not in ("starlette", "uvicorn"):
            raise
        raise BadInput(f"serve needs the package {error.name}: pip install 'samovar[web]'") from None

    def announce(address: str) -> None:
        if as_json:
            print_json({"address": address})
        else:
            print_line(f"{bundle}: serving at {address}")

    serve_model(bundle, host, port, token, announce)
