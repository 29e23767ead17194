"""The arguments of one training, checked, and as a config that is compared when it goes on."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
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
        if not self.learning_rate > 0 or (self.clip_norm is not None and not self.clip_norm > 0):
            raise BadInput(
                f"train: learning_rate is {self.learning_rate}, clip_norm {self.clip_norm}; expected numbers above 0: "
                "change the arguments"
            )

    @property
    def epochs_of_patience(self) -> int:
        return default_patience(self.n_epochs) if self.patience is None else self.patience

    def config(self, seed: int, num_examples: int, criterion: str) -> dict[str, Any]:
        return {**asdict(self), "seed": seed, "num_examples": num_examples, "criterion": criterion}


@dataclass(frozen=True)
class Manner:
    """What changes nothing in the result."""

    n_workers: int
    verbose: bool
    epoch_hook: Callable[[Any], None] | None
    snapshot_seconds: float


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
