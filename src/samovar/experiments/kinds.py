"""Which command makes a result. Runs none."""

from typing import Literal, get_args

Kind = Literal["brew", "train", "predict", "run"]
KINDS: tuple[Kind, ...] = get_args(Kind)
_COMMANDS: dict[str, Kind] = {"model": "train", "table": "brew", "prediction": "predict"}


def command_of(kind: str) -> Kind:
    """By the kind that lineage names; all that is not ours is a stage of the user's own."""
    return _COMMANDS.get(kind, "run")
