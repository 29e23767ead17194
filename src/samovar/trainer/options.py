"""The arguments of a training: checked, and chosen by the size of the data where they are not given."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

from samovar.callbacks.schedule import default_patience
from samovar.errors import BadInput
from samovar.nets import TrainingRules
from samovar.training.facade import check_count

MANY_EPOCHS = 50
_FEW_EPOCHS = 20
_MOST_EXAMPLES = 4_000_000  # trained on by the net for tables, unless n_epochs is given: some minutes on two cores


@dataclass(frozen=True)
class Options:
    """The arguments of `train` that change the result, checked. A resumed training must have the same."""

    batch_size: int
    n_epochs: int
    train_prop: float
    learning_rate: float
    repeat_train: int
    repeat_valid: int
    n_best_nets: int
    with_restarts: bool
    shuffle: bool
    patience: int
    clip_norm: float | None
    deterministic: bool
    scale_inputs: bool = False

    @classmethod
    def choose(cls, given: Mapping[str, Any], num_train: int, rules: TrainingRules | None) -> "Options":
        """Fill in what is None, by the size of the training part, or for a `TabularNet` by its rules."""
        chosen: dict[str, Any]
        if rules is not None:
            chosen = {
                "batch_size": rules.batch_size,
                "n_epochs": min(rules.max_epochs, max(_FEW_EPOCHS, _MOST_EXAMPLES // max(1, num_train))),
                "learning_rate": rules.lr,
                "patience": rules.patience,
                "clip_norm": rules.clip_norm,
                "with_restarts": False,
            }
        else:
            batch_size = choose_batch_size(num_train) if given["batch_size"] is None else given["batch_size"]
            n_epochs = MANY_EPOCHS if given["n_epochs"] is None else given["n_epochs"]
            chosen = {
                "batch_size": batch_size,
                "n_epochs": n_epochs,
                "learning_rate": choose_rate(check_count("batch_size", batch_size)),
                "patience": default_patience(check_count("n_epochs", n_epochs)),
                "with_restarts": True,
            }
        values: dict[str, Any] = {name: chosen.get(name) if each is None else each for name, each in given.items()}
        return cls(**values)

    def apply_to(self, rules: TrainingRules) -> TrainingRules:
        """The rules, with what was given instead of chosen."""
        assert self.clip_norm is not None
        return replace(
            rules, batch_size=self.batch_size, lr=self.learning_rate, clip_norm=self.clip_norm, patience=self.patience
        )

    def __post_init__(self) -> None:
        for name in ("batch_size", "n_epochs", "repeat_train", "repeat_valid", "n_best_nets", "patience"):
            check_count(name, getattr(self, name))
        for name in ("learning_rate", "train_prop", "clip_norm"):
            value = getattr(self, name)
            is_off = value is None and name == "clip_norm"
            if not is_off and (isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0):
                raise BadInput(f"{name} must be a number above 0, got {value!r}")


@dataclass(frozen=True)
class RunOptions:
    """The arguments of `train` that do not change the result. A resumed training may have others."""

    n_workers: int
    verbose: bool
    snapshot_seconds: float

    def __post_init__(self) -> None:
        check_count("n_workers", self.n_workers, 0)


def choose_batch_size(num_examples: int) -> int:
    """About a hundred minibatches per epoch: a power of two from 16 to 256. Larger ones cost less time per example, but
    small data needs the steps."""
    return 1 << min(8, max(4, math.ceil(math.log2(max(1, num_examples) / 100))))


def choose_rate(batch_size: int) -> float:
    """The rate of 0.001 belongs to 16 examples; a step over more of them is less noisy, and may be longer."""
    return 1e-3 * min(4.0, max(1.0, math.sqrt(batch_size / 16)))
