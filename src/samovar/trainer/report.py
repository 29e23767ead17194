"""What a training achieved: the history of its epochs, a report for people, and the learning curve."""

import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from samovar.callbacks import Plateau
from samovar.runner import Callback, Run


@dataclass(frozen=True)
class Report:
    """What `PytorchTrainer.train` returns. Print it for a summary.

    Attributes:
        name: The name given to `train`; the best net is in `<name>.pt`.
        history: One mapping per epoch: `epoch`, `train_loss`, `valid_loss`, `rate` (the learning rate) and `event`
            (`progress`, `wait`, `cut`, `restart` or `stop`).
        best_epoch: The epoch with the lowest validation loss, from 0.
        best_loss: That loss.
        averaged_loss: The validation loss of the average of the best nets; None if nets were not averaged.
        num_averaged: How many nets are in the average.
        end_reason: Why the training ended early; None if it did not.
        directory: The result directory, with logs and the learning curve.

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

    name: str
    history: Sequence[Mapping[str, Any]]
    best_epoch: int
    best_loss: float
    averaged_loss: float | None
    num_averaged: int
    end_reason: str | None
    directory: Path

    def __str__(self) -> str:
        lines = [
            f"{self.name}: {len(self.history)} epochs"
            + (f", ended early: {self.end_reason}" if self.end_reason else ""),
            f"  best net      epoch {self.best_epoch}, validation loss {self.best_loss:.6g}: {self.name}.pt",
        ]
        if self.averaged_loss is not None:
            lines.append(
                f"  average of {self.num_averaged:<2} validation loss {self.averaged_loss:.6g}: {self.name}_avg.pt"
            )
        return "\n".join([*lines, f"  curve, logs   {self.directory}/logs"])


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
    """Prints one line per epoch."""

    def __init__(self, history: History, num_epochs: int, console: Console) -> None:
        self._history = history
        self._num_epochs = num_epochs
        self._console = console

    def on_uri_end(self, run: Run) -> None:
        row = self._history.rows[-1]
        losses = ", ".join(f"{name} {_show(row[f'{name}_loss'])}" for name in ("train", "valid"))
        event = "" if row["event"] == "wait" else f", {row['event']}"
        line = f"epoch {row['epoch'] + 1} of {self._num_epochs}: {losses}, rate {row['rate']:.3g}{event}"
        self._console.print(line, markup=False)


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
