"""One training: the learner, epochs and callbacks that are handed to the loop, and what is made of its end.

The arguments of one training, checked, and as a config that is compared when it goes on.
"""

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
from samovar.callbacks.best_nets import Net, Weights, average, choose_near
from samovar.callbacks.schedule import default_patience
from samovar.data import BatchMaker, Split
from samovar.errors import BadInput, Diverged
from samovar.policies import Constant, EarlyStopping
from samovar.results import OpenResult
from samovar.runner import Callback, Learner, MinibatchWorkerPool, Run, Stream
from samovar.seeds import numpy_generator
from samovar.trainer.lookahead import Clipped, Lookahead
from samovar.trainer.report import EpochLines, History, Report, draw_curve
from samovar.trainer.steps import CriterionLoss, DatasetStream, NetOfInputs, Validation
from samovar.training.facade import Epochs, check_count, run_epochs


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
class RunOptions:
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


CURVE = "logs/learning_curve.png"


@dataclass
class Training:
    net: torch.nn.Module
    criterion: Any
    maker: BatchMaker
    split: Split
    options: Options
    run_options: RunOptions
    device: torch.device
    name: Path
    save: Callable[[str, Weights, int, float], None]
    """Writes a net: ending of the name, weights, epoch, loss."""
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.RAdam

    def run(self, result: OpenResult, hook: Callback | None) -> Report:
        options = self.options
        factor = RateFactor()
        learner = self.make_learner(factor)
        pool = MinibatchWorkerPool(learner)
        validation = Validation(learner, self._valid_stream, self.maker.seed)
        best = BestNets(options.n_best_nets, lambda run: validation.loss, self._save_best)
        plateau = Plateau(
            Countdown(options.epochs_of_patience, options.with_restarts), factor, lambda _: validation.loss
        )
        history = History(lambda: options.learning_rate * factor.value, lambda: validation.loss, plateau)
        run = Run(learner, pool.settings.policies)
        with ExitStack() as stack:
            stack.enter_context(determinism(options.deterministic))
            shown = self._shown(stack, history)
            stop_order = StopOrder(self.name.with_name(f"stop_{self.name.name}"))
            callbacks = [
                KeptSplit(self.split), validation, best, MetricsLog(result), TensorBoard(result), TimingLog(result),
                plateau, Restarts(plateau), history, *shown, *([hook] if hook is not None else []),
                PolicyClock(), stop_order, EarlyStop(plateau),
            ]  # fmt: skip
            self.net.train()
            epochs = Epochs(options.n_epochs, self.train_stream)
            run_epochs(run, pool, epochs, callbacks, result, self.run_options.snapshot_seconds)
            report = self._end(run, best, validation, history, result.directory.name)
            with result.create(CURVE) as file:
                file.write(draw_curve(report.history, self.name.name))
            averaged = {"averaged_loss": report.averaged_loss, "num_averaged": report.num_averaged}
            result.finish(run.state_dict(), {**run.position, **averaged})
            stop_order.remove()
        return report

    def make_learner(self, factor: RateFactor) -> Learner:
        rate, clip_norm = self.options.learning_rate, self.options.clip_norm
        inner = Lookahead(self.optimizer(self.net.parameters(), lr=rate))
        optimizer = inner if clip_norm is None else Clipped(inner, clip_norm)
        policies = {"lr": Constant(rate), "lr_factor": factor}
        return Learner(NetOfInputs(self.net), optimizer, CriterionLoss(self.criterion), policies=policies)

    def _shown(self, stack: ExitStack, history: History) -> list[Callback]:
        if not self.run_options.verbose:
            return []
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        lines: list[Callback] = [EpochLines(history, self.options.n_epochs, console)]
        if console.is_terminal:
            lines.append(stack.enter_context(Progress(self.options.n_epochs, console=console)))
        return lines

    # Which examples, in which order

    def train_stream(self, epoch: int) -> Stream:
        orders = [
            numpy_generator(self.maker.seed, "order", epoch, turn).permutation(self.split.train)
            for turn in range(self.options.repeat_train)
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

    # What is left at the end

    def _save_best(self, net: Net) -> None:
        self.save("", _bare(net.weights), net.epoch, net.loss)

    def _end(self, run: Run, best: BestNets, validation: Validation, history: History, directory: str) -> Report:
        if best.best is None:
            raise Diverged(
                f"{self.name}: the validation loss of no epoch is a finite number; expected some: lower the learning "
                "rate, clip gradients, or look for NaN in the inputs"
            )
        averaged, near = None, choose_near(best.nets)
        if self.options.n_best_nets > 1:
            weights = average(near)
            run.model.load_state_dict(weights)
            averaged = validation.measure(run.next_uri)
            averaged = averaged if averaged is not None and math.isfinite(averaged) else None
            self.save("_avg", _bare(weights), best.best.epoch, math.nan if averaged is None else averaged)
        run.model.load_state_dict(best.best.weights)
        self._save_best(best.best)  # a run of the same name may have written there meanwhile
        return Report(
            str(self.name), history.rows, best.best.epoch, best.best.loss, averaged, len(near), run.end_reason,
            Path(directory),
        )  # fmt: skip


class KeptSplit(Callback):
    """The split belongs to the run: it is in its snapshots, and in the final model."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def state_dict(self) -> Mapping[str, Any]:
        return {"train": self._split.train, "valid": self._split.valid}


class StopOrder(Callback):
    """Ends the run in order when somebody puts the file there; the file is removed when it is obeyed for good."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def on_uri_end(self, run: Run) -> None:
        if self._path.exists():
            raise EarlyStopping(f"there was a file {self._path}")

    def remove(self) -> None:
        """After the result is finished: who is killed before that finds the order again."""
        self._path.unlink(missing_ok=True)


@contextmanager
def determinism(is_asked: bool) -> Iterator[None]:
    """Only algorithms that give the same bits each time; all as it was afterwards."""
    if not is_asked:
        yield
        return
    is_on, only_warns = (
        torch.are_deterministic_algorithms_enabled(),
        torch.is_deterministic_algorithms_warn_only_enabled(),
    )
    benchmark = torch.backends.cudnn.benchmark
    torch.use_deterministic_algorithms(True)
    torch.backends.cudnn.benchmark = False
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(is_on, warn_only=only_warns)
        torch.backends.cudnn.benchmark = benchmark


def _bare(weights: Weights) -> Weights:
    return {name.removeprefix("net."): value for name, value in weights.items()}
