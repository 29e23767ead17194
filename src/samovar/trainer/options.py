"""The arguments of one training, checked, and as a config that is compared when it goes on."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Real
from typing import Any

import torch

from samovar.callbacks.countdown import default_patience
from samovar.errors import BadInput
from samovar.pipelines.facade import check_count


@dataclass(frozen=True)
class Options:
    batch_size: int
    n_epochs: int
    train_prop: float
    learning_rate: float
    repeat_train: int
    repeat_valid: int
    n_best_nets: int
    with_restarts: bool
    shuffle: bool
    patience: int | None
    clip_norm: float | None
    deterministic: bool

    def __post_init__(self) -> None:
        for name in ("batch_size", "n_epochs", "repeat_train", "repeat_valid", "n_best_nets"):
            check_count(name, getattr(self, name))
        if self.patience is not None:
            check_count("patience", self.patience)
        for name in ("learning_rate", "train_prop", "clip_norm"):
            value = getattr(self, name)
            is_absent = value is None and name == "clip_norm"
            if not is_absent and (isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0):
                raise BadInput(f"train: {name} is {value!r}; expected a number above 0: change the argument")

    @property
    def epochs_of_patience(self) -> int:
        return default_patience(self.n_epochs) if self.patience is None else self.patience

    def config(
        self, seed: int, num_examples: int, criterion: str, optimizer: Callable[..., torch.optim.Optimizer]
    ) -> dict[str, Any]:
        made_by = optimizer.func if isinstance(optimizer, partial) else optimizer
        names = {"criterion": criterion, "optimizer": getattr(made_by, "__name__", type(made_by).__name__)}
        return {**asdict(self), "seed": seed, "num_examples": num_examples, **names}


@dataclass(frozen=True)
class Manner:
    """What changes nothing in the result."""

    n_workers: int
    verbose: bool
    epoch_hook: Callable[[Any], None] | None
    snapshot_seconds: float

    def __post_init__(self) -> None:
        check_count("n_workers", self.n_workers, 0)


def find_device(device: str | torch.device) -> torch.device:
    """'auto' is CUDA where it is; one that is asked for and absent is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        found = torch.device(device)
    except RuntimeError as error:
        raise BadInput(f"device: found {device!r}; expected 'auto', 'cpu', 'cuda' or 'cuda:1': {error}") from error
    if found.type == "cuda" and (not torch.cuda.is_available() or (found.index or 0) >= torch.cuda.device_count()):
        raise BadInput(
            f"device: {device} was asked for, and torch sees {torch.cuda.device_count()} CUDA devices; expected it to "
            "be there: take device='auto', or install torch with CUDA"
        )
    return found
