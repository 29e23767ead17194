"""How help and errors of usage read: `--json` and `CONFIG`, without the names of Python types that typer adds, and
`must be at least 1, got 0`. Knows no command."""

from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup


class _PlainHelp:
    """typer writes `--json <bool>`, `CONFIG <path>`, `N [x>=1]`, `Usage: samovar train {CONFIG}`, and pydantic's texts.

    Versions of typer that write plainer help are left as they are.
    """

    def get_params(self, ctx: Any) -> list[Any]:
        params: list[Any] = super().get_params(ctx)  # type: ignore[misc]  # of the command that this is mixed into
        for param in params:
            if param.param_type_name == "argument":
                param.display_type_rich = lambda ctx: None
            elif getattr(param, "is_flag", False):
                param.metavar = ""
            param.min = param.max = None  # what help shows; values are checked elsewhere
        return params

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        pieces: list[str] = super().collect_usage_pieces(ctx)  # type: ignore[misc]  # as above
        return [piece.replace("{", "").replace("}", "") for piece in pieces]

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        words = list(args)  # parsing takes them away
        try:
            rest: list[str] = super().parse_args(ctx, args)  # type: ignore[misc]  # as above
        except typer.BadParameter as error:
            cause: Any = error.__cause__
            if hasattr(cause, "errors"):  # pydantic's
                from samovar.config import explain_error

                error.message = explain_error(cause.errors()[0])
            script = next((each for each in words if each.endswith(".py")), None)
            is_missing = hasattr(error, "param_type")
            if is_missing and script and "--script" in getattr(error.param, "opts", ()):
                error.message = f"Did you mean --script {script}?"
            raise
        return rest


class PlainCommand(_PlainHelp, TyperCommand):
    pass


class PlainGroup(_PlainHelp, TyperGroup):
    pass
