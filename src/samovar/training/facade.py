"""How `PytorchTrainer` and `train_model` use the training loop: epochs as URIs, with or without a result directory.
Knows neither of them.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from samovar.callbacks import Snapshotter
from samovar.errors import BadInput
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.runner import Callback, Loader, Run, Runner, Step, Stream, Uri, Uris
from samovar.store import LocalStore


@dataclass(frozen=True)
class Epochs(Uris):
    """One URI per epoch."""

    num_epochs: int
    stream_of: Callable[[int], Stream]

    @property
    def count(self) -> int:
        return self.num_epochs

    def starting_at(self, number: int) -> Iterator[Uri]:
        for epoch in range(number, self.num_epochs):
            stream = self.stream_of(epoch)
            yield Uri(epoch, f"epoch {epoch}", stream, 0, stream.num_batches, epoch)


def run_epochs(
    run: Run, step: Step, epochs: Epochs, callbacks: Sequence[Callback], result: OpenResult | None, seconds: float
) -> None:
    """Run the epochs, starting from the newest snapshot if there is one.

    Takes a snapshot at the end of an epoch if the last one is at least `seconds` old.
    """
    run.callbacks = list(callbacks)
    if result is not None:
        snapshotter = Snapshotter(result, seconds)
        run.callbacks.append(snapshotter)
        snapshot = result.restore()
        if snapshot is not None:
            run.load_state_dict(snapshot.tree)
        else:  # another process would draw other initial weights
            result.save(run.state_dict(), run.position)
    with Loader() as loader:
        Runner(step, loader, run.callbacks).run(run, epochs)


def open_facade(folder: Path, kind: str, config: Mapping[str, Any]) -> OpenResult:
    """Start or resume the directory of a run. Use it in a `with` block."""
    folder.mkdir(parents=True, exist_ok=True)
    return begin(ResultDirectory(LocalStore(folder)), ResultPlan(kind, dict(config)))


def kept_config(folder: Path) -> dict[str, Any]:
    """The config of an existing directory, else an empty one."""
    directory = ResultDirectory(LocalStore(folder))
    return directory.config if folder.is_dir() and directory.is_created else {}


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return the value of an argument that counts something, or raise `BadInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} must be an integer of at least {least}, got {value!r}")
    return value
