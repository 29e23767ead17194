"""Files of nets: the weights, what turns rows into inputs and outputs into predictions. Weights and JSON, no code.

<name>.pt                  the best net of the newest training
<name>_avg.pt              the average of its best nets
<name>/<k>/model/net.pt    the net that training k ended with; if it never ended and the name was trained again, the
                           best one that it had is in external_stuff/net.pt
"""

import shutil
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from samovar.errors import BadInput, NotAResult
from samovar.nets import TablePreprocessor, TabularTask
from samovar.results.state import encode_tree, load_tree
from samovar.trainer.criteria import MixedCriterion
from samovar.trainer.frames import FrameInputs
from samovar.trainer.report import show
from samovar.training.facade import is_created, kept_config

KIND = "PytorchTrainer"
RUN_FILE = "model/net.pt"
_UNFINISHED_FILE = "external_stuff/net.pt"  # no other part of a result is left alone


@dataclass(frozen=True)
class NetFile:
    weights: Mapping[str, torch.Tensor]
    build_args: Any
    """None if they are not plain data."""
    criterion: Mapping[str, Any]
    scales: Mapping[str, Any]
    """The state of the scales of inputs."""
    rows: Mapping[str, Any] | None
    """What turns frames into inputs, if the net was trained on one."""
    epoch: int
    loss: float

    @property
    def is_table(self) -> bool:
        """Whether it is the net that needs no builder."""
        return self.rows is not None and self.rows["kind"] == "table"

    def tree(self) -> dict[str, Any]:
        return {
            "kind": KIND,
            "weights": dict(self.weights),
            "build_args": self.build_args,
            "criterion": dict(self.criterion),
            "scales": dict(self.scales),
            "rows": None if self.rows is None else dict(self.rows),
            "epoch": self.epoch,
            "loss": self.loss,
        }


def read_net(path: Path) -> NetFile:
    tree = load_tree(path)
    if not isinstance(tree, dict) or tree.get("kind") != KIND:
        raise NotAResult(f"{path}: not a net of {KIND}, but another file of Samovar")
    scales = tree.get("scales", {"scales": []})  # files of Samovar 0.2 have none
    return NetFile(
        tree["weights"], tree["build_args"], tree["criterion"], scales, tree.get("rows"), tree["epoch"], tree["loss"]
    )


# Names


def base_path(name: str | Path) -> Path:
    """The name of a training as a path; people also give the name of the file."""
    path = Path(name).expanduser()
    if path.name in ("", "..", ".pt"):
        raise BadInput(f"name must be that of a net, got {str(name)!r}")
    return path.with_name(path.name.removesuffix(".pt"))


def net_path(name: str | Path, suffix: str = "") -> Path:
    path = base_path(name)
    return path.with_name(f"{path.name}{suffix}.pt")


def run_numbers(path: Path) -> list[int]:
    """The trainings of a name that were started, in order."""
    found = [each for each in path.glob("*") if each.name.isdigit()] if path.is_dir() else []
    return sorted(int(each.name) for each in found if is_created(each))


def run_path(name: str | Path, run: int) -> Path:
    """The net of one training of a name."""
    path = base_path(name)
    for name_inside in (RUN_FILE, _UNFINISHED_FILE):
        file = path / str(run) / name_inside
        if file.is_file():
            return file
    numbers = run_numbers(path)
    finished = [number for number in numbers if (path / str(number) / RUN_FILE).is_file()]
    problem = "is not finished: train with resume=True" if run in numbers else "does not exist"
    available = ", ".join(map(str, finished)) or "none"
    raise NotAResult(f"{path}: training {run!r} {problem}. Finished trainings: {available}")


def choose_folder(path: Path, resume: bool) -> tuple[Path, dict[str, Any]]:
    """`<name>/<k>`: the newest one to resume, otherwise a new one; and the config that it has."""
    numbers = run_numbers(path)
    if resume and numbers:
        folder = path / str(numbers[-1])
        return folder, kept_config(folder)
    return path / str(numbers[-1] + 1 if numbers else 0), {}


def keep_earlier(path: Path, folder: Path, verbose: bool) -> None:
    """Say that a name was trained before, and let no earlier net be lost."""
    numbers = run_numbers(path)
    if not numbers or folder.name in map(str, numbers):  # or it is resumed
        return
    newest = path / str(numbers[-1])
    is_finished = (newest / RUN_FILE).is_file()
    if not is_finished and net_path(path).is_file():
        kept = newest / _UNFINISHED_FILE
        kept.parent.mkdir(exist_ok=True)
        shutil.copyfile(net_path(path), kept)
    if verbose:
        hint = "" if is_finished else " (it is unfinished: resume=True continues it)"
        show(
            f"{path} was trained before, in {newest}{hint}. This training is {folder}, and {net_path(path)} will hold "
            f"its net; load({str(path)!r}, run={newest.name}) loads the earlier one"
        )


# What a net belongs to


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
    if type(criterion) in (MixedCriterion, TabularTask):
        return {"kind": "mixed" if type(criterion) is MixedCriterion else "table", "state": criterion.state_dict()}
    get_state = getattr(criterion, "state_dict", None)
    state = None if get_state is None else dict(get_state())
    return {"kind": "own", "name": type(criterion).__qualname__, "state": state}


def restore_criterion(path: Path, saved: Mapping[str, Any], given: Any) -> Any:
    """Those of Samovar are rebuilt from the file; any other has to be given."""
    if saved["kind"] in ("mixed", "table") and given is None:
        criterion = MixedCriterion() if saved["kind"] == "mixed" else TabularTask()
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


def describe_rows(rows: FrameInputs | TablePreprocessor | None, target: str | None) -> dict[str, Any] | None:
    if rows is None:
        return None
    kind = "table" if isinstance(rows, TablePreprocessor) else "frame"
    return {"kind": kind, "state": rows.state_dict(), "target": target}


def restore_rows(saved: Mapping[str, Any] | None) -> tuple[FrameInputs | TablePreprocessor | None, str | None]:
    """What turns rows into inputs, and the name of the target."""
    if saved is None:
        return None, None
    rows = TablePreprocessor() if saved["kind"] == "table" else FrameInputs()
    rows.load_state_dict(saved["state"])
    return rows, saved["target"]


def load_weights(net: torch.nn.Module, weights: Mapping[str, torch.Tensor], source: str) -> None:
    try:
        net.load_state_dict(OrderedDict(weights))
    except RuntimeError as error:
        raise BadInput(
            f"{source}: the weights do not fit the net: {error}. Use the builder and arguments it was trained with"
        ) from error
