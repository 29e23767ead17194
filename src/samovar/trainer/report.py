"""What a training achieved: the history of its epochs, a report for people, and the learning curve."""

import io
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.callbacks import Plateau
from samovar.runner import Callback, Run

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Report:
    """What `PytorchTrainer.train` returns. Print it for a summary.

    Attributes:
        name: The name given to `train`; the best net is in `<name>.pt`. None for a training that keeps no files.
        history: One mapping per epoch: `epoch`, from 0 as everywhere, `train_loss` and `valid_loss`, both in the units
            of the target, `rate` (the learning rate) and `event` (`progress`, `wait`, `cut`, `restart` or `stop`).
        best_epoch: The epoch with the lowest validation loss.
        best_loss: That loss.
        averaged_loss: The validation loss of the average of the best nets; None if nets were not averaged.
        num_averaged: How many nets are in the average.
        end_reason: Why the training ended early; None if it did not.
        directory: The result directory, with logs and the learning curve; None if there is none.

    Example:
        ```python
        import numpy as np
        import torch
        from samovar import PytorchTrainer
        from samovar.data import ArrayDataset

        x = np.random.randn(200, 3)
        trainer = PytorchTrainer(torch.nn.Linear, [3, 1])
        report = trainer.train(ArrayDataset(x, x.sum(1, keepdims=True)), "sum", n_epochs=5)
        print(report.best_loss, [row["valid_loss"] for row in report.history])
        ```
    """

    name: str | None
    history: Sequence[Mapping[str, Any]]
    best_epoch: int
    best_loss: float
    averaged_loss: float | None
    num_averaged: int
    end_reason: str | None
    directory: Path | None

    @property
    def uses_average(self) -> bool:
        """Whether the average is better than the best net, and predicts."""
        return self.averaged_loss is not None and self.averaged_loss < self.best_loss

    def __str__(self) -> str:
        ended = f", ended early: {self.end_reason}" if self.end_reason else ""
        lines = [
            f"{self.name or 'training'}: {len(self.history)} epochs{ended}",
            f"  best net      epoch {self.best_epoch}, validation loss {self.best_loss:.6g}{self._file('')}",
        ]
        if self.averaged_loss is not None:
            used = ", which predicts" if self.uses_average else ""
            loss = f"validation loss {self.averaged_loss:.6g}"
            lines.append(f"  average of {self.num_averaged:<2} {loss}{self._file('_avg')}{used}")
        if self.directory is not None:
            lines.append(f"  curve, logs   {self.directory}/logs")
        return "\n".join(lines)

    def _file(self, suffix: str) -> str:
        return "" if self.name is None else f": {self.name}{suffix}.pt"


class History(Callback):
    """Remembers each epoch. Must come after the plateau, whose verdict it records.

    Snapshots hold the state of this callback by the name of the class."""

    def __init__(self, rate: Callable[[], float], loss: Callable[[], float | None], plateau: Plateau) -> None:
        self.rows: list[dict[str, Any]] = []
        self._get_rate = rate
        self._get_loss = loss
        self._plateau = plateau
        self._rate = 0.0

    def on_uri_begin(self, run: Run) -> None:
        self._rate = self._get_rate()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        row = {"epoch": run.uri.epoch, "train_loss": run.mean_loss, "valid_loss": self._get_loss(), "rate": self._rate}
        self.rows.append({**row, "event": self._plateau.verdict})

    def state_dict(self) -> Mapping[str, Any]:
        return {"rows": [dict(row) for row in self.rows]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rows = [dict(row) for row in state["rows"]]


class EpochLines(Callback):
    """Shows one line per epoch."""

    def __init__(self, history: History, num_epochs: int) -> None:
        self._history = history
        self._num_epochs = num_epochs

    def on_uri_end(self, run: Run) -> None:
        row = self._history.rows[-1]
        losses = ", ".join(f"{name} {_show(row[f'{name}_loss'])}" for name in ("train", "valid"))
        event = "" if row["event"] == "wait" else f", {row['event']}"
        left = self._num_epochs - row["epoch"] - 1
        show(f"epoch {row['epoch']} ({left} left): {losses}, rate {row['rate']:.3g}{event}")


def show(text: str) -> None:
    """Log what `verbose` asked for, with level INFO; where no logging is set up for it, print it to stderr."""
    if logger.isEnabledFor(logging.INFO) and logger.hasHandlers():
        logger.info("%s", text)
    else:
        print(text, file=sys.stderr)


def draw_curve(history: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """Draw the learning curve as a PNG."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 5))
    FigureCanvasAgg(figure)
    axes = figure.add_subplot(title=title, xlabel="epoch", ylabel="loss")
    epochs = [row["epoch"] for row in history]
    for part in ("train", "valid"):
        losses = [float("nan") if row[f"{part}_loss"] is None else row[f"{part}_loss"] for row in history]
        axes.plot(epochs, losses, marker=".", label=part)
    for row in history:
        if row["event"] == "restart":
            axes.axvline(row["epoch"], linestyle=":", color="grey")
    axes.legend()
    picture = io.BytesIO()
    figure.savefig(picture, format="png", metadata={"Software": None})
    return picture.getvalue()


def _show(loss: float | None) -> str:
    return "none" if loss is None else f"{loss:.6g}"
