"""What `samovar.train` and `samovar.predict` return: result directories with metrics, predictions and plots. Reads
only.
"""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa
import pyarrow.parquet as pq

from samovar.config.places import PathLike, as_path
from samovar.config.values import suggest
from samovar.errors import BadInput, NotAResult
from samovar.results import ResultDirectory, open_directory
from samovar.results.artifacts import METRICS_LOG, read_log
from samovar.results.directory import Epoch
from samovar.scoring.quality import Quality, Span, evaluations, read_best
from samovar.store.reports import save_figure

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from samovar.scoring.model import Model

_FOLDER = "evaluation"


class PredictionDirectory(ResultDirectory):
    """A result directory with predictions: what `samovar.predict` returns.

    Args:
        store: The directory.

    Attributes:
        was_finished: Whether it was found finished, and nothing was done.
        notes: What the call said: settings that differ, hours without rows, versions that changed.

    Example:
        >>> done = samovar.predict("models/click", "clicks", "measured", keys=["hit"], targets=["clicked"])
        >>> done.predictions().columns.tolist()
        ['hit', 'clicked', 'prediction']
    """

    was_finished: bool = False
    notes: Sequence[str] = ()

    @classmethod
    def of(cls, place: PathLike, was_finished: bool = False, notes: Sequence[str] = ()) -> Self:
        """Open the directory.

        Args:
            place: The directory.
            was_finished: Whether there was nothing to do.
            notes: What the user should look at.
        """
        found = cls(open_directory(place).store)
        found.was_finished, found.notes = was_finished, tuple(notes)
        return found

    @property
    def path(self) -> Path:
        """Where it is on this machine.

        Raises:
            BadInput: It is in an object store: see `place`.
        """
        return as_path(self.place, "path")

    def metrics(self, by: Span = "hour") -> "pandas.DataFrame":
        """The quality of its evaluations.

        Args:
            by: One row per "hour" or per "day".

        Returns:
            A DataFrame with name, shift, time, num_examples, mean_target, mean_prediction, and the metrics of the task:
            auc, log_loss, calibration, accuracy and average_precision if it is binary.
        """
        return Quality(evaluations(self, by)).to_frame()

    def predictions(self, name: str | None = None, epoch: Epoch = "last") -> "pandas.DataFrame":
        """The predictions of an evaluation: keys, targets, prediction, and the model's hour online.

        Args:
            name: Its name in the config. May be left out if there is one.
            epoch: "best" reads those of the best evaluation, if a model was evaluated after several epochs.

        Raises:
            BadInput: There is no such evaluation, or several and no name.
            NotAResult: There are no predictions, or none of a best evaluation.
        """
        parts = [entry.path for entry in self.store.list(_FOLDER) if entry.path.endswith(".parquet")]
        names = sorted({part.split("/")[1] for part in parts})
        if not names:
            raise NotAResult(f"{self.name}: no evaluation has predictions")
        if name is None and len(names) > 1:
            raise BadInput(f"{self.name} has several evaluations; name one of {', '.join(names)}")
        chosen = names[0] if name is None else name
        if chosen not in names:
            raise BadInput(f"{self.name}: no evaluation {chosen!r}{suggest(chosen, names)}")
        wanted = self._choose(sorted(part for part in parts if part.split("/")[1] == chosen), epoch)
        tables = [pq.read_table(io.BytesIO(self.store.read(part))) for part in wanted]
        return pa.concat_tables(tables).to_pandas()

    def _choose(self, parts: Sequence[str], epoch: Epoch) -> Sequence[str]:
        """Offline, there is one file per evaluation that is kept; otherwise all files are parts of one whole."""
        folder = parts[0].rpartition("/")[0]
        last, best = f"{folder}/predictions.parquet", f"{folder}/best.parquet"
        of_uris = [part for part in parts if part.startswith(f"{folder}/uri")]
        if epoch == "best":
            if best not in parts:
                raise NotAResult(f"{self.name} has no predictions of a best epoch. Read those of the last one")
            return [best]
        return [last] if last in parts else of_uris[-1:] or parts


class ModelDirectory(PredictionDirectory):
    """The directory of a model: a `samovar.results.ResultDirectory` with what is special about models.

    Args:
        store: The directory.

    Example:
        >>> run = samovar.train("model.py", "clicks", targets=["clicked"], model_dir="models/plain")
        >>> run.status.state
        'finished'
    """

    @property
    def best(self) -> Mapping[str, Any] | None:
        """The best evaluation: its uri, epoch, metric and value. None: there are not several, or the run goes on."""
        return read_best(self)

    def losses(self) -> "pandas.DataFrame":
        """The training loss of each URI: an hour, or a piece of an epoch."""
        import pandas

        lines = [line for line in read_log(self.store, METRICS_LOG) if line.get("kind") == "train"]
        columns = ["uri", "name", "num_batches", "num_examples", "loss"]
        return pandas.DataFrame([{name: line.get(name) for name in columns} for line in lines], columns=columns)

    def plot(self, path: Path | str | None = None, by: Span = "hour") -> "Figure":
        """Draw the training loss, and the metrics of the evaluations over time.

        Args:
            path: Where to save the picture: PNG, SVG or PDF by its suffix. None: nowhere.
            by: One point per "hour" or per "day" in evaluations.

        Returns:
            The figure, which a notebook shows.
        """
        losses = self.losses()
        figure = Quality(evaluations(self, by)).figure(list(zip(losses["name"], losses["loss"], strict=True)))
        if path is not None:
            save_figure(figure, path)
        return figure

    def load(self, *, snapshot: bool = False, epoch: Epoch = "last") -> "Model":
        """Load the model; see `samovar.load`.

        Args:
            snapshot: Take the newest snapshot, also of a run that has not finished.
            epoch: "best" takes the model after its best evaluation, "last" the one at the end.
        """
        from samovar.training.library import load

        return load(self, snapshot=snapshot, epoch=epoch)
