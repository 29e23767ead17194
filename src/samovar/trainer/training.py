"""One training: its options, the learner, epochs and callbacks handed to the loop, and what is made of its end."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from functools import partial
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
from samovar.callbacks.schedule import PROGRESS
from samovar.data import BatchMaker, Split
from samovar.errors import Diverged, Stopped, StoreError
from samovar.nets import AveragedNet, TabularOptimizer, TrainingRules
from samovar.notebook import can_draw
from samovar.policies import Constant, EarlyStopping
from samovar.results import OpenResult
from samovar.results.state import save_tree, write_tree
from samovar.runner import Callback, Learner, Run, Stream
from samovar.seeds import numpy_generator
from samovar.trainer.inputs import InputScales
from samovar.trainer.lookahead import GradientClipping, Lookahead
from samovar.trainer.net_file import RUN_FILE, net_path
from samovar.trainer.options import Options, RunOptions
from samovar.trainer.report import EpochLines, History, Report, draw_curve
from samovar.trainer.steps import CriterionLoss, DatasetStream, FiniteInputs, PositionalNet, TrainStep, Validation
from samovar.training.facade import Epochs, ours_first, run_epochs

CURVE_FILE = "logs/learning_curve.png"


@dataclass
class Training:
    """Everything one training needs. `run` trains, and leaves the best net in `net`."""

    net: torch.nn.Module
    criterion: Any
    scales: InputScales
    maker: BatchMaker
    split: Split
    options: Options
    run_options: RunOptions
    device: torch.device
    name: Path | None
    """None keeps no files."""
    describe: Callable[[Weights, int, float], dict[str, Any]]
    """The tree of a net file, given the weights, the epoch and the loss."""
    optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.RAdam
    rules: TrainingRules | None = None
    """How to train a `TabularNet`; None for any other net."""

    def run(self, result: OpenResult | None, users: Sequence[Callback], hook: Callback | None) -> Report:
        options = self.options
        factor = RateFactor()
        learner = self.make_learner(factor)
        step = TrainStep(learner)
        validation = Validation(learner, self._valid_stream, self.maker.seed)
        best = BestNets(options.n_best_nets, lambda run: validation.loss, self._save_best)
        countdown = Countdown(options.patience, options.with_restarts, PROGRESS if self.rules is None else 0.0)
        plateau = Plateau(countdown, factor, lambda _: validation.loss)
        history = History(lambda: options.learning_rate * factor.value, lambda: validation.loss, plateau)
        run = Run(learner, step.settings.policies)
        with ExitStack() as stack:
            stack.enter_context(only_deterministic(options.deterministic))
            console_output = self._console_output(stack, history)
            stop_file = None if self.name is None else EarlyStopFile(self.name.with_name(f"stop_{self.name.name}"))
            logs = (
                [] if result is None else [MetricsLog(result), TensorBoard(result), TimingLog(result, options.n_epochs)]
            )
            callbacks = [
                KeptSplit(self.split), KeptScales(self.scales), FiniteInputs(), validation, best, *users, *logs,
                plateau, Restarts(plateau), history, *console_output, *([] if hook is None else [hook]), PolicyClock(),
                *([] if stop_file is None else [stop_file]), EarlyStop(plateau),
            ]  # fmt: skip
            run.callbacks = ours_first(callbacks, users)
            self.net.train()
            epochs = Epochs(options.n_epochs, self.train_stream)
            try:
                run_epochs(run, step, epochs, callbacks, result, self.run_options.snapshot_seconds)
            except Exception as error:
                # A net or data set that failed at its first minibatch leaves no directory behind.
                if result is not None and run.num_batches == 0 and not isinstance(error, Stopped | StoreError):
                    result.forget()
                raise
            report = self._finish(run, best, validation, history, result)
            if stop_file is not None:
                stop_file.remove()
        return report

    def config(self) -> dict[str, Any]:
        """The config of the result directory: what a resumed training must have in common."""
        factory = self.optimizer.func if isinstance(self.optimizer, partial) else self.optimizer
        optimizer = getattr(factory, "__name__", type(factory).__name__) if self.rules is None else "TabularOptimizer"
        facts = {"seed": self.maker.seed, "num_examples": len(self.maker.dataset)}
        return {**asdict(self.options), **facts, "criterion": type(self.criterion).__name__, "optimizer": optimizer}

    def make_learner(self, factor: RateFactor) -> Learner:
        rate = self.options.learning_rate
        # The rates of a TabularNet differ by parameter: only the factor is common to all.
        policies = {"lr_factor": factor} if self.rules is not None else {"lr": Constant(rate), "lr_factor": factor}
        model = PositionalNet(self.net, self.scales)
        return Learner(model, self._make_optimizer(), CriterionLoss(self.criterion), policies=policies)

    def _make_optimizer(self) -> GradientClipping | TabularOptimizer:
        if self.rules is not None:
            assert isinstance(self.net, AveragedNet)
            return TabularOptimizer(self.net, self.rules, self._num_train_batches)
        inner = Lookahead(self.optimizer(self.net.parameters(), lr=self.options.learning_rate))
        return GradientClipping(inner, self.options.clip_norm)

    def _console_output(self, stack: ExitStack, history: History) -> list[Callback]:
        if not self.run_options.verbose:
            return []
        lines: list[Callback] = [EpochLines(history, self.options.n_epochs)]
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        if can_draw(console):
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
        if self.name is not None:
            save_tree(net_path(self.name), self.describe(_without_prefix(net.weights), net.epoch, net.loss))

    def _finish(
        self, run: Run, best: BestNets, validation: Validation, history: History, result: OpenResult | None
    ) -> Report:
        """Choose the net that predicts, and write what is left to write."""
        if best.best is None:
            raise Diverged(
                f"{self.name or 'training'}: the validation loss was not finite in any epoch. Lower learning_rate, or "
                "set clip_norm"
            )
        near = select_near_best(best.nets)
        averaged = average(near) if self.options.n_best_nets > 1 else None
        averaged_loss = None if averaged is None else self._measure(run, averaged, validation)
        report = Report(
            None if self.name is None else str(self.name), history.rows, best.best.epoch, best.best.loss, averaged_loss,
            len(near), run.end_reason, None if result is None else Path(result.directory.name),
        )  # fmt: skip
        chosen, loss = best.best.weights, best.best.loss
        if report.uses_average and averaged is not None and averaged_loss is not None:
            chosen, loss = averaged, averaged_loss
        run.model.load_state_dict(chosen)
        if self.name is not None and averaged is not None:
            unknown = math.nan if averaged_loss is None else averaged_loss
            tree = self.describe(_without_prefix(averaged), best.best.epoch, unknown)
            save_tree(net_path(self.name, "_avg"), tree)
        self._save_best(best.best)  # another run of this name may have overwritten the file
        if result is not None:
            with result.create(RUN_FILE) as file:
                write_tree(file, self.describe(_without_prefix(chosen), best.best.epoch, loss))
            with result.create(CURVE_FILE) as file:
                file.write(draw_curve(report.history, Path(str(self.name)).name))
            numbers = {"averaged_loss": report.averaged_loss, "num_averaged": report.num_averaged}
            result.finish(run.state_dict(), {**run.position, **numbers})
        return report

    def _measure(self, run: Run, weights: Weights, validation: Validation) -> float | None:
        """The validation loss of other weights; None if it is not finite."""
        run.model.load_state_dict(weights)
        loss = validation.measure(run.next_uri)
        return loss if loss is not None and math.isfinite(loss) else None


class EpochHook(Callback):
    """Calls the user's function of the trainer after each epoch."""

    def __init__(self, trainer: Any, hook: Callable[[Any], None]) -> None:
        self._trainer = trainer
        self._hook = hook

    def on_uri_end(self, run: Run) -> None:
        self._hook(self._trainer)


class KeptSplit(Callback):
    """Keeps the split in snapshots and in the final model, by the name of this class."""

    def __init__(self, split: Split) -> None:
        self._split = split

    def state_dict(self) -> Mapping[str, Any]:
        return {"train": self._split.train, "valid": self._split.valid}


class KeptScales(Callback):
    """Keeps the scales of the inputs in snapshots: a training may continue with a net, and so with scales, that it did
    not make."""

    def __init__(self, scales: InputScales) -> None:
        self._scales = scales

    def state_dict(self) -> Mapping[str, Any]:
        return self._scales.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._scales.load_state_dict(state)


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
