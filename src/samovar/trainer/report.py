"""What came of a training: the history of its epochs, a report for people, a picture of the curve."""

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
    name: str
    history: Sequence[Mapping[str, Any]]
    """An entry an epoch: epoch, train_loss, valid_loss, rate, event."""
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
    """Remembers each epoch. Comes after the plateau, whose verdict it notes."""

    def __init__(self, rate: Callable[[], float], loss: Callable[[], float | None], plateau: Plateau) -> None:
        self.rows: list[dict[str, Any]] = []
        self._rate_of = rate
        self._loss_of = loss
        self._plateau = plateau
        self._rate = 0.0

    def on_uri_begin(self, run: Run) -> None:
        self._rate = self._rate_of()

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        row = {"epoch": run.uri.epoch, "train_loss": run.mean_loss, "valid_loss": self._loss_of(), "rate": self._rate}
        self.rows.append({**row, "event": self._plateau.verdict})

    def state_dict(self) -> Mapping[str, Any]:
        return {"rows": [dict(row) for row in self.rows]}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.rows = [dict(row) for row in state["rows"]]


class EpochLines(Callback):
    """A line an epoch, for people."""

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
    """The learning curve as PNG."""
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
