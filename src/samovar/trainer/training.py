"""One training: its options, the learner, epochs and callbacks handed to the loop, and what is made of its end."""

import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from samovar.callbacks import (
    BestNets,
    Countdown,
    EarlyStop,
    MetricsLog,
    Plateau,
    PolicyClock,
    Progress,
    RateFactor,
    Restarts,
    TensorBoard,
    TimingLog,
)
from samovar.callbacks.best_nets import Net, Weights, average, select_near_best
from samovar.callbacks.schedule import default_patience
from samovar.data import BatchMaker, Split
from samovar.errors import BadInput, Diverged
from samovar.policies import Constant, EarlyStopping
from samovar.results import OpenResult
from samovar.runner import Callback, Learner, MinibatchWorkerPool, Run, Stream
from samovar.seeds import numpy_generator
from samovar.trainer.lookahead import GradientClipping, Lookahead
from samovar.trainer.report import EpochLines, History, Report, draw_curve
from samovar.trainer.steps import CriterionLoss, DatasetStream, PositionalNet, Validation
from samovar.training.facade import Epochs, check_count, run_epochs


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
            is_off = value is None and name == "clip_norm"
            if not is_off and (isinstance(value, bool) or not isinstance(value, Real) or not float(value) > 0):
                raise BadInput(f"{name} must be a number above 0, got {value!r}")

    @property
    def patience_epochs(self) -> int:
        return default_patience(self.n_epochs) if self.patience is None else self.patience

    def config(
        self, seed: int, num_examples: int, criterion: str, optimizer: Callable[..., torch.optim.Optimizer]
    ) -> dict[str, Any]:
        """The config of the result directory."""
        factory = optimizer.func if isinstance(optimizer, partial) else optimizer
        names = {"criterion": criterion, "optimizer": getattr(factory, "__name__", type(factory).__name__)}
        return {**asdict(self), "seed": seed, "num_examples": num_examples, **names}


@dataclass(frozen=True)
class RunOptions:
    """The arguments of `train` that do not change the result. A resumed training may have others."""

    n_workers: int
    verbose: bool
    snapshot_seconds: float

    def __post_init__(self) -> None:
        check_count("n_workers", self.n_workers, 0)


def choose_device(device: str | torch.device) -> torch.device:
    """'auto' is CUDA if there is one. Asking for a device that is absent is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise BadInput(f"device must be 'auto', 'cpu', 'cuda' or like 'cuda:1', got {device!r}: {error}") from error
    num_devices = torch.cuda.device_count()
    if chosen.type == "cuda" and (not torch.cuda.is_available() or (chosen.index or 0) >= num_devices):
        raise BadInput(
            f"device {device} is not available: torch sees {num_devices} CUDA devices. Use device='auto', or install "
            "torch with CUDA"
        )
    return chosen


CURVE_FILE = "logs/learning_curve.png"


@dataclass
class Training:
    """Everything one training needs. `run` trains, and leaves the best net in `net`."""

    net: torch.nn.Module
    criterion: Any
    maker: BatchMaker
    split: Split
    options: Options
    run_options: RunOptions
    device: torch.device
    name: Path
    save: Callable[[str, Weights, int, float], None]
    """Writes a net, given the suffix of its name, the weights, the epoch and the loss."""
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.RAdam

    def run(self, result: OpenResult, hook: Callback | None) -> Report:
        options = self.options
        factor = RateFactor()
        learner = self.make_learner(factor)
        pool = MinibatchWorkerPool(learner)
        validation = Validation(learner, self._valid_stream, self.maker.seed)
        best = BestNets(options.n_best_nets, lambda run: validation.loss, self._save_best)
        plateau = Plateau(Countdown(options.patience_epochs, options.with_restarts), factor, lambda _: validation.loss)
        history = History(lambda: options.learning_rate * factor.value, lambda: validation.loss, plateau)
        run = Run(learner, pool.settings.policies)
        with ExitStack() as stack:
            stack.enter_context(only_deterministic(options.deterministic))
            console_output = self._console_output(stack, history)
            stop_file = EarlyStopFile(self.name.with_name(f"stop_{self.name.name}"))
            callbacks = [
                KeptSplit(self.split), validation, best, MetricsLog(result), TensorBoard(result), TimingLog(result),
                plateau, Restarts(plateau), history, *console_output, *([hook] if hook is not None else []),
                PolicyClock(), stop_file, EarlyStop(plateau),
            ]  # fmt: skip
            self.net.train()
            epochs = Epochs(options.n_epochs, self.train_stream)
            run_epochs(run, pool, epochs, callbacks, result, self.run_options.snapshot_seconds)
            report = self._finish(run, best, validation, history, result.directory.name)
            with result.create(CURVE_FILE) as file:
                file.write(draw_curve(report.history, self.name.name))
            averaged = {"averaged_loss": report.averaged_loss, "num_averaged": report.num_averaged}
            result.finish(run.state_dict(), {**run.position, **averaged})
            stop_file.remove()
        return report

    def make_learner(self, factor: RateFactor) -> Learner:
        rate, clip_norm = self.options.learning_rate, self.options.clip_norm
        inner = Lookahead(self.optimizer(self.net.parameters(), lr=rate))
        optimizer = inner if clip_norm is None else GradientClipping(inner, clip_norm)
        policies = {"lr": Constant(rate), "lr_factor": factor}
        return Learner(PositionalNet(self.net), optimizer, CriterionLoss(self.criterion), policies=policies)

    def _console_output(self, stack: ExitStack, history: History) -> list[Callback]:
        if not self.run_options.verbose:
            return []
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        lines: list[Callback] = [EpochLines(history, self.options.n_epochs, console)]
        if console.is_terminal:
            lines.append(stack.enter_context(Progress(self.options.n_epochs, console=console)))
        return lines

    # The order of examples

    def train_stream(self, epoch: int) -> Stream:
        orders = [
            numpy_generator(self.maker.seed, "order", epoch, repeat).permutation(self.split.train)
            for repeat in range(self.options.repeat_train)
        ]
        return self._stream(np.concatenate(orders), epoch * self._batches_per_epoch)

    def _valid_stream(self, epoch: int) -> Stream:
        order = np.tile(self.split.valid, self.options.repeat_valid)
        return self._stream(order, epoch * self._batches_per_epoch + self._num_train_batches)

    def _stream(self, order: Any, first: int) -> Stream:
        indices = torch.from_numpy(order)
        size, workers = self.options.batch_size, self.run_options.n_workers
        return DatasetStream(self.maker, indices, size, first, workers, self.device)

    @property
    def _num_train_batches(self) -> int:
        return -(-len(self.split.train) * self.options.repeat_train // self.options.batch_size)

    @property
    def _batches_per_epoch(self) -> int:
        valid = -(-len(self.split.valid) * self.options.repeat_valid // self.options.batch_size)
        return self._num_train_batches + valid

    # The end

    def _save_best(self, net: Net) -> None:
        self.save("", _without_prefix(net.weights), net.epoch, net.loss)

    def _finish(self, run: Run, best: BestNets, validation: Validation, history: History, directory: str) -> Report:
        if best.best is None:
            raise Diverged(
                f"{self.name}: the validation loss was not finite in any epoch. Lower learning_rate, set clip_norm, or "
                "look for NaN in the inputs"
            )
        averaged, near = None, select_near_best(best.nets)
        if self.options.n_best_nets > 1:
            weights = average(near)
            run.model.load_state_dict(weights)
            averaged = validation.measure(run.next_uri)
            averaged = averaged if averaged is not None and math.isfinite(averaged) else None
            self.save("_avg", _without_prefix(weights), best.best.epoch, math.nan if averaged is None else averaged)
        run.model.load_state_dict(best.best.weights)
        self._save_best(best.best)  # another run of this name may have overwritten the file
        return Report(
            str(self.name), history.rows, best.best.epoch, best.best.loss, averaged, len(near), run.end_reason,
            Path(directory),
        )  # fmt: skip


class KeptSplit(Callback):
    """Keeps the split in snapshots and in the final model, by the name of this class."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def state_dict(self) -> Mapping[str, Any]:
        return {"train": self._split.train, "valid": self._split.valid}


class EarlyStopFile(Callback):
    """Ends the training after the current epoch if a file is there."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_uri_end(self, run: Run) -> None:
        if self._path.exists():
            raise EarlyStopping(f"there was a file {self._path}")

    def remove(self) -> None:
        """Call it when the result is finished: a training killed before that must find the file again."""
        self._path.unlink(missing_ok=True)


@contextmanager
def only_deterministic(is_wanted: bool) -> Iterator[None]:
    """Let torch use only algorithms that give the same bits each time; afterwards, restore the user's setting."""
    if not is_wanted:
        yield
        return
    was_on = torch.are_deterministic_algorithms_enabled()
    only_warned = torch.is_deterministic_algorithms_warn_only_enabled()
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_on, warn_only=only_warned)
        torch.backends.cudnn.benchmark = benchmark


def _without_prefix(weights: Weights) -> Weights:
    """Weights by their names in the user's net, not in `PositionalNet`."""
    return {name.removeprefix("net."): value for name, value in weights.items()}
