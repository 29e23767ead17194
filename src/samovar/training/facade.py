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
from samovar.runner.run import check_tree
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

    Takes a snapshot at the end of an epoch if the last one is at least `seconds` old. Callbacks are called in the order
    given; `run.callbacks` says whose state is saved, see `ours_first`.
    """
    called = list(callbacks)
    if result is not None:
        called.append(Snapshotter(result, seconds))
        snapshot = result.restore(check_tree)
        if snapshot is not None:
            run.load_state_dict(snapshot.tree)
        else:  # another process would draw other initial weights
            result.save(run.state_dict(), run.position)
    with Loader() as loader:
        Runner(step, loader, called).run(run, epochs)


def check_callbacks(callbacks: Any) -> list[Callback]:
    """Return the user's callbacks as a list, or raise `BadInput`."""
    given: list[Any] = [callbacks] if isinstance(callbacks, Callback | type) else list(callbacks)
    for each in given:
        if not isinstance(each, Callback) or each is callbacks:
            kind = f"the class {each.__name__}" if isinstance(each, type) else f"one {type(each).__name__}"
            raise BadInput(f"callbacks must be a list of samovar.Callback objects, got {kind}")
    return given


def ours_first(callbacks: Sequence[Callback], users: Sequence[Callback]) -> list[Callback]:
    """The order in which snapshots name callbacks: ours keep their names, whatever the user's classes are called."""
    ids = {id(each) for each in users}
    return [*(each for each in callbacks if id(each) not in ids), *users]


def open_facade(folder: Path, kind: str, config: Mapping[str, Any]) -> OpenResult:
    """Start or resume the directory of a run. Use it in a `with` block."""
    folder.mkdir(parents=True, exist_ok=True)
    return begin(ResultDirectory(LocalStore(folder)), ResultPlan(kind, dict(config)))


def is_created(folder: Path) -> bool:
    """Whether a folder is the directory of a run."""
    return folder.is_dir() and ResultDirectory(LocalStore(folder)).is_created


def kept_config(folder: Path) -> dict[str, Any]:
    """The config of an existing directory, else an empty one."""
    return ResultDirectory(LocalStore(folder)).config if is_created(folder) else {}


def check_count(name: str, value: Any, least: int = 1) -> int:
    """Return the value of an argument that counts something, or raise `BadInput`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise BadInput(f"{name} must be an integer of at least {least}, got {value!r}")
    return value
