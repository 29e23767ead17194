"""Files of nets: the weights, what turns rows into inputs and outputs into predictions. Weights and JSON, no code.

<name>.pt                  the best net of the newest training
<name>_avg.pt              the average of its best nets
<name>/<k>/model/net.pt    the net that training k ended with; if it never ended and the name was trained again, the
                           best one that it had is in external_stuff/net.pt
"""

import os
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from pydantic import Field, Strict

from samovar.config.places import suggest_path
from samovar.config.records import Number, Text, check_state, in_file
from samovar.config.values import describe
from samovar.errors import BadInput, NotAResult, SamovarError
from samovar.nets import TablePreprocessor, TabularTask
from samovar.results.state import encode_tree, load_tree
from samovar.trainer.criteria import MixedCriterion
from samovar.trainer.frames import FrameInputs
from samovar.trainer.report import show
from samovar.training.facade import is_created, kept_config

KIND = "PytorchTrainer"
RUN_FILE = "model/net.pt"
_UNFINISHED_FILE = "external_stuff/net.pt"  # no other part of a result is left alone
_FREE_BYTES = 64 << 20
_MOST_TIMES = 4  # a builder may make doubles of what was trained in half precision


@dataclass(frozen=True)
class _Criterion:
    kind: Literal["mixed", "table", "own"]
    state: dict[Any, Any] | None
    name: Text = ""
    """The class of one's own."""


@dataclass(frozen=True)
class _Rows:
    kind: Literal["frame", "table"]
    state: dict[Any, Any]
    target: Text | None


@dataclass(frozen=True)
class _TableArgs:
    num_members: Annotated[int, Strict(), Field(ge=1, le=2**24)]


@dataclass(frozen=True)
class NetFile:
    """What a file holds. The states inside are checked by those that they belong to."""

    weights: dict[Text, Any]
    """Also the extra states of modules, which are no tensors."""
    build_args: Any
    """None if they are not plain data."""
    criterion: _Criterion
    epoch: Annotated[int, Strict(), Field(ge=0)]
    loss: Number
    scales: dict[Any, Any] = field(default_factory=lambda: {"scales": []})  # files of Samovar 0.2 have none
    """The state of the scales of inputs."""
    rows: _Rows | None = None
    """What turns frames into inputs, if the net was trained on one."""

    @property
    def is_table(self) -> bool:
        """Whether it is the net that needs no builder."""
        return self.rows is not None and self.rows.kind == "table"

    @property
    def num_members(self) -> int:
        """Of the net that needs no builder."""
        return check_state(_TableArgs, self.build_args, "build_args").num_members


def read_net(path: Path) -> NetFile:
    tree = load_tree(path)
    if not isinstance(tree, dict) or str(tree.get("kind")) != KIND:  # arrays compare by element
        raise NotAResult(f"{path}: not a net of {KIND}, but another file of Samovar")
    return check_state(NetFile, tree, str(path))


# Names


def find_net(name: str | Path, run: int | None) -> Path:
    """The file to load for a name."""
    if run is not None:
        return run_path(name, run)
    path = net_path(name)
    if path.exists():
        return path
    looked = "" if str(path) == str(name) else f". load({str(name)!r}) looks only there"
    raise NotAResult(f"{path}: no such file{looked}{suggest_path(path, '*.pt')}")


def base_path(name: str | Path) -> Path:
    """The name of a training as a path; people also give the name of the file."""
    if not isinstance(name, str | os.PathLike):
        raise BadInput(f"name must be the name or path of a net, got {describe(name)}")
    path = Path(name).expanduser()
    if path.name in ("", "..", ".pt"):
        raise BadInput(f"name must be the name or path of a net, got {str(name)!r}")
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


def restore_criterion(path: Path, saved: NetFile, given: Any) -> Any:
    """Those of Samovar are rebuilt from the file; any other has to be given."""
    kind, state = saved.criterion.kind, saved.criterion.state
    if given is None:
        if kind == "own":
            raise BadInput(
                f"{path} was trained with your own criterion {saved.criterion.name}, and net files contain no code. "
                "Pass it: load(…, criterion=…)"
            )
        given = MixedCriterion() if kind == "mixed" else TabularTask()
        with in_file(path):
            given.load_state_dict(state)
    elif state is not None and hasattr(given, "load_state_dict"):
        with in_file(path), in_own_code(f"{path}: {type(given).__name__} cannot load the state of the criterion in it"):
            given.load_state_dict(state)
    if saved.is_table and not isinstance(given, TabularTask):
        raise BadInput(f"{path}: the net for tables needs a TabularTask as its criterion, got {type(given).__name__}")
    return given


def describe_rows(rows: FrameInputs | TablePreprocessor | None, target: str | None) -> dict[str, Any] | None:
    if rows is None:
        return None
    kind = "table" if isinstance(rows, TablePreprocessor) else "frame"
    return {"kind": kind, "state": rows.state_dict(), "target": target}


def restore_rows(path: Path, saved: NetFile) -> tuple[FrameInputs | TablePreprocessor | None, str | None]:
    """What turns rows into inputs, and the name of the target."""
    if saved.rows is None:
        return None, None
    rows = TablePreprocessor() if saved.is_table else FrameInputs()
    with in_file(path):
        rows.load_state_dict(saved.rows.state)
    return rows, saved.rows.target


def check_size(build: Callable[[], torch.nn.Module], path: Path) -> None:
    """Refuse a net that is far larger than its file, before there is memory for it.

    It is built on torch's meta device, which has shapes only. A builder that cannot do without values is not checked.
    """
    try:
        with torch.device("meta"):
            values = [each for each in build().state_dict().values() if isinstance(each, torch.Tensor)]
            num_bytes = sum(each.numel() * each.element_size() for each in values)
    except SamovarError:
        raise
    except Exception:
        return
    size = path.stat().st_size
    if num_bytes > _FREE_BYTES + _MOST_TIMES * size:
        raise BadInput(
            f"{path}: the weights do not fit the net: with the arguments in the file it needs {num_bytes:,} bytes, and "
            f"the file has {size:,}"
        )


@contextmanager
def in_own_code(problem: str) -> Iterator[None]:
    """Code of the user's own is handed what a stranger may have written, and can raise anything."""
    try:
        yield
    except SamovarError:
        raise
    except Exception as error:
        raise BadInput(f"{problem} ({type(error).__name__}: {error})") from error


def load_weights(net: torch.nn.Module, weights: Mapping[str, Any], source: str) -> None:
    try:
        net.load_state_dict(OrderedDict(weights))
    except Exception as error:  # modules can have code of their own for it
        raise BadInput(
            f"{source}: the weights do not fit the net: {error}. Use the builder and arguments it was trained with"
        ) from error
