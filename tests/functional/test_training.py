"""train_model: what a second call does, and what is refused."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.tables.making import make_table
from torch import nn

from samovar import Callback, EarlyStopping, Policy, TorchModel, set_seed, train_model
from samovar.errors import BadInput, Conflict
from samovar.functional.batch_iter import Infinite, sample
from samovar.policies import Exponential
from samovar.results import open_directory
from samovar.results.artifacts import METRICS_LOG, read_log
from samovar.results.event_file import read_scalars
from samovar.runner import Run
from samovar.store import LocalStore

ROWS = [(row, row.sum(keepdims=True)) for row in np.sin(np.arange(60, dtype=np.float32)).reshape(20, 3)]


def make_model(seed: int = 0) -> TorchModel:
    set_seed(seed)
    return TorchModel(nn.Linear(3, 1), nn.Identity(), nn.MSELoss(), torch.optim.Adam)


def make_batches() -> Infinite:
    return Infinite(sample(ROWS), batch_size=4, n_iters_per_epoch=3, buffer_size=0)


class Epochs(Policy):
    """Records the epochs that started; optionally ends the run after one of them."""

    def __init__(self, stop: int | None = None) -> None:
        self.started: list[int] = []
        self._stop = stop

    def epoch_started(self, epoch: int) -> None:
        self.started.append(epoch)

    def epoch_finished(self, epoch: int, **_: Any) -> None:
        if epoch == self._stop:
            raise EarlyStopping

    def state_dict(self) -> dict[str, Any]:
        return {}

    def load_state_dict(self, state: Any) -> None:
        pass


def train(path: Path, n_epochs: int, stop: int | None = None, seed: int = 0) -> tuple[list[int], Any]:
    model, epochs = make_model(seed), Epochs(stop)
    train_model(model, make_batches(), n_epochs, 1e-2, checkpoints_path=path, epochs=epochs)
    return epochs.started, model.architecture.state_dict()["weight"].tolist()


def test_more_epochs_continue_to_the_same_bits_and_as_many_do_nothing(quick_path: Path) -> None:
    _, straight = train(quick_path / "straight", 5)
    assert train(quick_path / "cut", 3)[0] == [0, 1, 2]
    again, weights = train(quick_path / "cut", 3, seed=9)
    assert again == []
    assert weights != make_model(9).architecture.state_dict()["weight"].tolist()
    started, weights = train(quick_path / "cut", 5, seed=9)
    assert started == [3, 4]
    assert weights == straight


def test_a_run_that_ended_early_is_finished(quick_path: Path) -> None:
    started, weights = train(quick_path, 10, stop=2)
    assert started == [0, 1, 2]
    assert open_directory(quick_path).is_finished
    assert train(quick_path, 20, seed=9) == ([], weights)


def test_other_policies_are_refused_in_the_same_directory(quick_path: Path) -> None:
    train(quick_path, 1)
    with pytest.raises(Conflict, match="other"):
        train_model(make_model(), make_batches(), 2, 1e-2, checkpoints_path=quick_path, other=3)


def test_a_value_that_is_not_a_number_is_passed_on() -> None:
    seen = []

    class Model(TorchModel):
        def do_train_step(self, *inputs: Any, lr: float, mode: str, factor: float) -> float:  # type: ignore[override]  # more policies
            seen.append((mode, factor))
            return super().do_train_step(*inputs, lr=lr)

    model = Model(nn.Linear(3, 1), nn.Identity(), nn.MSELoss())
    train_model(model, make_batches(), 1, 1e-2, mode="soft", factor=2)
    assert seen == [("soft", 2.0)] * 3


def test_a_policy_by_step_moves_within_epochs_and_continues(quick_path: Path) -> None:
    def run(path: Path, n_epochs: int) -> list[float]:
        seen: list[float] = []

        class Model(TorchModel):
            def do_train_step(self, *inputs: Any, lr: float, **policies: Any) -> float:
                seen.append(lr)
                return super().do_train_step(*inputs, lr=lr)

        model = Model(nn.Linear(3, 1), nn.Identity(), nn.MSELoss())
        train_model(model, make_batches(), n_epochs, Exponential(8, 0.5, unit="step"), checkpoints_path=path)
        return seen

    assert run(quick_path / "cut", 1) + run(quick_path / "cut", 2) == [8, 4, 2, 1, 0.5, 0.25]


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(BadInput, match="model must be a TorchModel, got Linear"):
        train_model(nn.Linear(1, 1), make_batches(), 1, 1e-2)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(BadInput, match=r"n_epochs must be .* got 0"):
        train_model(make_model(), make_batches(), 0, 1e-2)
    with pytest.raises(BadInput, match="must be an object, got the class Epochs"):
        train_model(make_model(), make_batches(), 1, 1e-2, stop=Epochs)
    with pytest.raises(BadInput, match="validate must return a dict of metrics, got int"):
        train_model(make_model(), make_batches(), 1, 1e-2, validate=lambda: 3)  # type: ignore[arg-type,return-value]  # that is the mistake
    with pytest.raises(BadInput, match="batch_iter has no minibatches"):
        train_model(make_model(), [], 1, 1e-2)
    for lr in (None, "fast"):
        with pytest.raises(BadInput, match=rf"lr must be a number or a policy, got {lr!r}"):
            train_model(make_model(), make_batches(), 1, lr)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(BadInput, match="at least one input and a target, got 1 parts"):
        train_model(make_model(), [(np.zeros((2, 3)),)], 1, 1e-2)


def test_runs_that_share_a_log_folder_keep_their_own_events(quick_path: Path) -> None:
    logs = quick_path / "logs"

    def go(name: str, n_epochs: int) -> None:
        train_model(make_model(), make_batches(), n_epochs, 1e-2, logs, quick_path / name, seed=1)

    go("a", 2)
    (first,) = logs.iterdir()
    of_a = list(read_scalars(first.read_bytes()))
    go("b", 1)
    assert len(list(logs.iterdir())) == 2
    assert list(read_scalars(first.read_bytes())) == of_a
    go("a", 3)
    assert list(read_scalars(first.read_bytes()))[: len(of_a)] == of_a
    assert len(list(logs.iterdir())) == 2


class Best(Policy):
    """Sets an attribute after `__init__`."""

    def epoch_finished(self, epoch: int, *, train_losses: Any = None, metrics: Any = None) -> None:
        self.best = min(train_losses)


def test_a_policy_may_set_new_attributes(quick_path: Path) -> None:
    for n_epochs in (1, 2):
        policy = Best()
        train_model(make_model(), make_batches(), n_epochs, 1e-2, checkpoints_path=quick_path / "c", best=policy)
    assert policy.best > 0


def test_modules_that_the_user_froze_stay_frozen() -> None:
    norm = nn.BatchNorm1d(3)
    model = TorchModel(nn.Sequential(norm, nn.Linear(3, 1)), nn.Identity(), nn.MSELoss())
    norm.eval()
    before = norm.running_mean.clone() if norm.running_mean is not None else None
    train_model(model, make_batches(), 2, 1e-2, validate=lambda: {"n": len(model.do_inf_step(np.zeros((2, 3))))})
    assert not norm.training
    assert before is not None
    assert torch.equal(before, norm.running_mean)  # type: ignore[arg-type]  # it has one


class Recorder(Callback):
    """Sees the metrics of `validate`, adds its own, and remembers what it saw."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def on_uri_end(self, run: Run) -> None:
        self.seen.append(run.metrics["given"])
        run.metrics["doubled"] = 2 * run.metrics["given"]

    def state_dict(self) -> dict[str, Any]:
        return {"seen": self.seen}

    def load_state_dict(self, state: Any) -> None:
        self.seen = list(state["seen"])


def test_callbacks_come_between_validation_and_logs_and_resume_with_their_state(quick_path: Path) -> None:
    for n_epochs in (2, 4):
        recorder, values = Recorder(), iter([7.0, 8.0])
        train_model(
            make_model(),
            make_batches(),
            n_epochs,
            1e-2,
            checkpoints_path=quick_path,
            validate=lambda values=values: {"given": next(values)},  # type: ignore[misc]  # binds it now
            callbacks=[recorder],
        )
    assert recorder.seen == [7.0, 8.0, 7.0, 8.0]
    lines = read_log(open_directory(quick_path).store, METRICS_LOG)
    assert [line["metrics"]["doubled"] for line in lines] == [14.0, 16.0, 14.0, 16.0]
    with pytest.raises(Conflict, match="has the callback 'Recorder'"):
        train_model(make_model(), make_batches(), 5, 1e-2, checkpoints_path=quick_path)


def test_a_table_is_a_batch_iter_of_records(quick_path: Path) -> None:
    table = make_table(LocalStore(quick_path), 6).select(["price", "factors"])
    sizes = []

    class OnRecords(TorchModel):
        def do_train_step(self, *inputs: Any, lr: float) -> float:
            (record,) = inputs
            return super().do_train_step(record["factors"], record["price"][:, None], lr=lr)

    class Sizes(Callback):
        def on_batch_end(self, run: Run) -> None:
            assert run.record is not None
            sizes.append(run.record.num_examples)

    model = OnRecords(nn.Linear(2, 1), nn.Identity(), nn.MSELoss())
    train_model(model, table, 2, 1e-2, callbacks=[Sizes()])
    assert sizes == [5, 300] * 6
