"""`<name>.pt`: the weights of a net, and what turns its outputs into predictions. Weights and JSON, no code."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samovar.errors import BadInput, NotAResult
from samovar.results.state import encode_tree, load_tree, save_tree
from samovar.trainer.criteria import MixedCriterion

KIND = "PytorchTrainer"


@dataclass(frozen=True)
class NetFile:
    weights: Mapping[str, torch.Tensor]
    build_args: Any
    """None if they are not plain data."""
    criterion: Mapping[str, Any]
    epoch: int
    loss: float


def net_path(name: str | Path) -> Path:
    path = Path(name).expanduser()
    return path.with_name(f"{path.name}.pt")


def write_net(path: Path, net: NetFile) -> None:
    tree = {
        "kind": KIND,
        "weights": dict(net.weights),
        "build_args": net.build_args,
        "criterion": dict(net.criterion),
        "epoch": net.epoch,
        "loss": net.loss,
    }
    save_tree(path, tree)


def read_net(path: Path) -> NetFile:
    tree = load_tree(path)
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise NotAResult(f"{path}: not a net of {KIND}, but another file of Samovar")
    return NetFile(tree["weights"], tree["build_args"], tree["criterion"], tree["epoch"], tree["loss"])


def as_plain_data(value: Any) -> Any:
    """Arguments as a state tree keeps them, exactly; None if it cannot."""
    if value is None:
        return []
    try:
        encode_tree(value)
    except BadInput:
        return None
    return value


def describe_criterion(criterion: Any) -> dict[str, Any]:
    if type(criterion) is MixedCriterion:
        return {"kind": "mixed", "state": criterion.state_dict()}
    get_state = getattr(criterion, "state_dict", None)
    state = None if get_state is None else dict(get_state())
    return {"kind": "own", "name": type(criterion).__qualname__, "state": state}


def restore_criterion(path: Path, saved: Mapping[str, Any], given: Any) -> Any:
    """`MixedCriterion` is rebuilt from the file; any other has to be given."""
    if saved["kind"] == "mixed" and given is None:
        criterion = MixedCriterion()
        criterion.load_state_dict(saved["state"])
        return criterion
    if given is None:
        raise BadInput(
            f"{path}: was trained with your own criterion {saved['name']}, and files hold no code. "
            "Pass it: load(…, criterion=…)"
        )
    if saved.get("state") is not None and hasattr(given, "load_state_dict"):
        given.load_state_dict(saved["state"])
    return given


def load_weights(net: torch.nn.Module, weights: Mapping[str, torch.Tensor], source: str) -> None:
    try:
        net.load_state_dict(OrderedDict(weights))
    except RuntimeError as error:
        raise BadInput(
            f"{source}: the weights do not fit the net: {error}. Use the builder and arguments it was trained with"
        ) from error
