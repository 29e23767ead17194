"""PytorchTrainer as a user sees it."""

import json
import os
import random
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from safetensors import safe_open
from torch import nn
from torch.utils.data import Dataset, IterableDataset, TensorDataset

from samovar import Callback, EarlyStopping, PytorchTrainer
from samovar.data import ArrayDataset
from samovar.errors import BadInput, Conflict, Diverged, NotAResult, Stopped, UnknownColumn
from samovar.runner import Run

QUIET: dict[str, Any] = {"verbose": False, "n_epochs": 3, "seed": 1}


def build(num_inputs: int = 3, num_outputs: int = 1) -> nn.Module:
    return nn.Sequential(nn.Linear(num_inputs, 8), nn.ReLU(), nn.Dropout(0.2), nn.Linear(8, num_outputs))


def build_nan() -> nn.Module:
    net = nn.Linear(3, 1)
    nn.init.constant_(net.bias, torch.nan)
    return net


def make_data(count: int = 80) -> tuple[Any, Any]:
    x = np.sin(np.arange(count * 3.0)).reshape(count, 3)
    return x, x.sum(1, keepdims=True) * 10 + 5


@pytest.fixture(autouse=True)
def folder(quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(quick_path)
    return quick_path


@pytest.fixture
def trained() -> PytorchTrainer:
    return PytorchTrainer(build, [3], device="cpu").fit(*make_data(), name="m", **QUIET)


def test_train_load_and_predict_in_four_lines(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = ArrayDataset(*make_data())
    model = PytorchTrainer(build, [], device="cpu")
    model.train(dataset, name="model_name", batch_size=16, n_epochs=10)
    model.load("model_name")
    predictions = model.predict_dataset(dataset)
    assert predictions.shape == (80, 1)
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("epoch 0 (9 left): train")
    assert "best net" in printed.err
    assert (folder / "model_name/0/logs/learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_a_net_file_holds_weights_and_loads_on_the_class_and_on_an_instance(trained: PytorchTrainer) -> None:
    x, _ = make_data()
    with safe_open("m.pt", "pt") as file:
        weights = [f"weights/{n}.{kind}" for n in (0, 3) for kind in ("bias", "weight")]
        assert sorted(file.keys()) == [
            *(f"scales/scales/0/{name}" for name in ("high", "low", "mean", "std")),
            *weights,
        ]
    expected = trained.predict(x)
    fresh = PytorchTrainer.load("m", net_builder=build, device="cpu")
    other = PytorchTrainer(build, {"num_inputs": 3}, device="cpu")
    assert other.load("m") is other
    for loaded in (fresh, other, PytorchTrainer.load("m")):
        np.testing.assert_array_equal(loaded.predict(x), expected)


def test_frames_and_arrays_train_the_same_net(trained: PytorchTrainer) -> None:
    x, y = make_data()
    frame = pd.DataFrame(x, columns=list("abc"))
    other = PytorchTrainer(build, [3], device="cpu").fit(frame, pd.DataFrame(y), name="other", **QUIET)
    np.testing.assert_array_equal(other.predict(frame), trained.predict(x))
    np.testing.assert_array_equal(other.predict(frame[["c", "a", "b"]]), trained.predict(x))
    np.testing.assert_array_equal(other.predict(x), trained.predict(x))
    with pytest.raises(UnknownColumn, match=r"trained without a column 'd'; drop it"):
        other.predict(frame.assign(d="text"))
    with pytest.raises(UnknownColumn, match=r"the rows have no column 'c'"):
        other.predict(frame[["a", "b"]])


def test_prediction_needs_no_targets(trained: PytorchTrainer) -> None:
    x, y = (torch.from_numpy(each).float() for each in make_data())
    expected = trained.predict(x)
    for dataset in (TensorDataset(x), TensorDataset(x, y), ArrayDataset(x)):
        np.testing.assert_allclose(trained.predict_dataset(dataset, batch_size=7, verbose=False), expected, rtol=1e-5)


class Augmented(Dataset[Any]):
    """Random examples with two inputs, and a state that counts minibatches."""

    def __init__(self) -> None:
        self.state = 0

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        noise = np.random.rand() + random.random() + torch.rand(1).item()
        return [torch.tensor([index / 40, noise]), torch.tensor([float(self.state)])], 1.0, torch.tensor([index / 4])

    def switch_state(self) -> None:
        self.state += 1


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.seen: list[list[float]] = []

    def forward(self, x: torch.Tensor, state: torch.Tensor) -> torch.Tensor:
        self.seen.append(state[:, 0].tolist())
        output: torch.Tensor = self.layer(torch.cat([x, state / 100], 1))
        return output


def train_augmented(name: str, n_workers: int) -> PytorchTrainer:
    trainer = PytorchTrainer(TwoInputs, device="cpu")
    trainer.train(Augmented(), name, 8, n_workers=n_workers, deterministic=True, **QUIET)
    return trainer


def test_workers_change_no_bit_and_states_switch_once_per_minibatch() -> None:
    here, elsewhere = train_augmented("here", 0), train_augmented("elsewhere", 2)
    assert Path("here.pt").read_bytes() == Path("elsewhere.pt").read_bytes()
    assert isinstance(here.net, TwoInputs)
    assert isinstance(elsewhere.net, TwoInputs)
    assert here.net.seen == elsewhere.net.seen
    assert [set(states) for states in here.net.seen[:5]] == [{1}, {2}, {3}, {4}, {5}]
    assert not torch.are_deterministic_algorithms_enabled()


def test_a_seed_fixes_the_net_and_a_second_training_continues_from_it(folder: Path) -> None:
    first = PytorchTrainer(build, [3], device="cpu")
    first.fit(*make_data(), name="a", **QUIET)
    PytorchTrainer(build, [3], device="cpu").fit(*make_data(), name="b", **QUIET)
    assert (folder / "a.pt").read_bytes() == (folder / "b.pt").read_bytes()
    loss = first.report.best_loss if first.report else 0
    first.fit(*make_data(), name="a", **QUIET)
    assert first.report is not None
    assert first.report.best_loss < loss
    assert sorted(path.name for path in (folder / "a").iterdir()) == ["0", "1"]


def test_a_stop_file_ends_the_training_after_the_epoch(folder: Path) -> None:
    epochs = []

    def hook(trainer: PytorchTrainer) -> None:
        epochs.append(trainer.predict(make_data()[0]).shape)
        (folder / "stop_m").touch()

    trainer = PytorchTrainer(build, device="cpu")
    report = trainer.train(ArrayDataset(*make_data()), "m", n_best_nets=2, epoch_hook=hook, **QUIET)
    assert epochs == [(80, 1)]
    assert "stop_m" in str(report.end_reason)
    assert not (folder / "stop_m").exists()
    assert (folder / "m_avg.pt").exists()
    assert report.averaged_loss == pytest.approx(report.best_loss)


def test_a_criterion_and_an_optimizer_of_ones_own_are_used() -> None:
    class Absolute:
        def __init__(self, dataset: Any) -> None:
            self.num_examples = len(dataset)

        def __call__(self, output: Any, target: Any, weights: Any = None, unscaled: bool = False) -> torch.Tensor:
            loss: torch.Tensor = (output - target).abs().mean()
            return loss

        def postproc(self, pred: Any) -> Any:
            return pred * 2

    trainer = PytorchTrainer(build, device="cpu")
    options: dict[str, Any] = {**QUIET, "repeat_train": 2, "repeat_valid": 3, "clip_norm": 1.0, "shuffle": False}
    trainer.train(ArrayDataset(*make_data()), "m", criterion=Absolute, optimizer=torch.optim.SGD, **options)
    assert trainer.criterion.num_examples == 72
    with pytest.raises(BadInput, match=r"your own criterion .*Absolute"):
        PytorchTrainer.load("m", net_builder=build)
    loaded = PytorchTrainer.load("m", net_builder=build, criterion=trainer.criterion)
    np.testing.assert_array_equal(loaded.predict(make_data()[0]), trainer.predict(make_data()[0]))


class Seen(Callback):
    """Records the moments of a run and what it saw at them."""

    def __init__(self) -> None:
        self.moments: list[str] = []

    def on_run_begin(self, run: Run) -> None:
        self.moments.append("begin")

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        (measured,) = run.metrics["evaluation"]
        run.metrics["half"] = measured["loss"] / 2
        self.moments.append(f"epoch {run.uri.epoch}, net saved {Path('m.pt').exists()}")

    def on_run_end(self, run: Run) -> None:
        self.moments.append("end")


def test_callbacks_see_the_validation_loss_and_log_numbers(folder: Path) -> None:
    seen, after = Seen(), []
    options = {**QUIET, "n_epochs": 2, "patience": 5, "callbacks": [seen]}
    trainer = PytorchTrainer(build, device="cpu")
    report = trainer.train(
        ArrayDataset(*make_data()), "m", epoch_hook=lambda _: after.append(len(seen.moments)), **options
    )
    assert seen.moments == ["begin", "epoch 0, net saved True", "epoch 1, net saved True", "end"]
    assert after == [2, 3]  # the hook comes after them
    lines = [json.loads(line) for line in (folder / "m/0/logs/metrics.jsonl").read_text().splitlines()]
    halves = [line["metrics"]["half"] for line in lines if line["kind"] == "train"]
    assert halves == [row["valid_loss"] / 2 for row in report.history]


def test_a_callback_ends_or_stops_a_training(folder: Path) -> None:
    class End(Callback):
        def on_uri_end(self, run: Run) -> None:
            raise EarlyStopping("good enough")

    class Stop(Callback):
        def on_uri_end(self, run: Run) -> None:
            run.stop("enough for today")

    data, options = ArrayDataset(*make_data()), {**QUIET, "patience": 5}
    trainer = PytorchTrainer(build, device="cpu")
    report = trainer.train(data, "ended", callbacks=[End()], **options)
    assert (len(report.history), report.end_reason) == (1, "good enough")
    with pytest.raises(Stopped, match="enough for today"):
        trainer.train(data, "stopped", callbacks=[Stop()], **options)
    trainer = PytorchTrainer(build, device="cpu")
    assert len(trainer.train(data, "stopped", resume=True, **options).history) == 3


def test_what_is_no_list_of_callbacks_is_refused(folder: Path) -> None:
    trainer, data = PytorchTrainer(build, device="cpu"), ArrayDataset(*make_data())
    wrong: Any
    for wrong, got in ((Seen(), "one Seen"), (Seen, "the class Seen"), ([Seen], "the class Seen"), ([3], "one int")):
        with pytest.raises(BadInput, match=f"callbacks must be a list of samovar.Callback objects, got {got}"):
            trainer.train(data, "m", callbacks=wrong, **QUIET)
    assert not (folder / "m").exists()


def test_resuming_with_other_arguments_is_refused() -> None:
    trainer = PytorchTrainer(build, device="cpu")

    def fail(_: Any) -> None:
        raise RuntimeError("hook")

    with pytest.raises(RuntimeError, match="hook"):
        trainer.train(ArrayDataset(*make_data()), "m", epoch_hook=fail, **QUIET)
    with pytest.raises(Conflict, match="batch_size"):
        trainer.train(ArrayDataset(*make_data()), "m", batch_size=5, resume=True, **QUIET)
    sgd = partial(torch.optim.SGD, momentum=0.9)
    with pytest.raises(Conflict, match="optimizer,RAdam,SGD"):
        trainer.train(ArrayDataset(*make_data()), "m", optimizer=sgd, resume=True, **QUIET)
    trainer.train(ArrayDataset(*make_data()), "m", resume=True, **QUIET)


class Failing(Dataset[Any]):
    def __init__(self, at: int = 1234) -> None:
        self._at = at
        if at > 1000:  # otherwise the criterion reads its targets
            self.regression_flags, self.scale = (1,), (0.0, 1.0)

    def __len__(self) -> int:
        return 1300

    def __getitem__(self, index: int) -> Any:
        if index == self._at:
            raise KeyError("broken row")
        return torch.zeros(3), torch.zeros(1)


class Endless(IterableDataset[Any]):
    def __iter__(self) -> Any:
        return iter([])


NINE = TensorDataset(torch.zeros(9, 3), torch.zeros(9, 1))


@pytest.mark.parametrize(
    ("dataset", "options", "message"),
    [
        (Failing(), {"n_workers": 0}, r"cannot read example 1234: KeyError: 'broken row'"),
        (Failing(), {"n_workers": 1}, r"cannot read example 1234"),
        (Endless(), {}, "must have __len__ and __getitem__, got Endless"),
        (TensorDataset(torch.zeros(0, 3), torch.zeros(0, 1)), {}, "dataset is empty"),
        (TensorDataset(torch.zeros(1, 3), torch.zeros(1, 1)), {}, "part of 1 examples is empty"),
        (TensorDataset(torch.zeros(9, 3), torch.zeros(9, 2)), {"train_prop": 0.5}, r"shape \[\d, 1\] does not fit"),
        (NINE, {"train_prop": 1.5}, "train_prop must be between 0 and 1, both excluded, got 1.5"),
        (NINE, {"batch_size": 0}, "batch_size must be .* got 0"),
        (NINE, {"n_workers": -1}, "n_workers must be .* got -1"),
        (NINE, {"learning_rate": "a"}, "learning_rate must be a number above 0, got 'a'"),
        (NINE, {"train_prop": "a"}, "train_prop must be between 0 and 1, both excluded, got 'a'"),
        (NINE, {"clip_norm": 0}, "clip_norm must be a number above 0, got 0"),
        (NINE, {"criterion": "mse"}, "criterion must be 'auto', a class or an object, got 'mse'"),
        (NINE, {"criterion": nn.MSELoss}, "MSELoss needs the methods __call__"),
    ],
)  # fmt: skip
def test_wrong_arguments_are_refused(dataset: Any, options: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        PytorchTrainer(build, device="cpu").train(dataset, "m", **{**QUIET, **options})


def test_a_wrong_number_of_workers_makes_no_directory(folder: Path, trained: PytorchTrainer) -> None:
    with pytest.raises(BadInput, match="n_workers"):
        trained.train(ArrayDataset(*make_data()), "new", n_workers=-1, **QUIET)
    assert not (folder / "new").exists()
    for options in ({"batch_size": 0}, {"n_workers": -1}):
        with pytest.raises(BadInput, match=f"{next(iter(options))} must be"):
            trained.predict_dataset(ArrayDataset(*make_data()), verbose=False, **options)


def test_an_average_is_loaded_with_the_builder_that_made_it(folder: Path) -> None:
    options = {**QUIET, "n_best_nets": 2}
    first = PytorchTrainer(build, [3], device="cpu").fit(*make_data(), name="a", **options)

    def stranger(num_inputs: int) -> nn.Module:
        return nn.Linear(num_inputs, 1)

    for name in ("a", "a_avg"):
        PytorchTrainer(stranger, [3], device="cpu")  # the newest
        assert PytorchTrainer.load(name).net_builder is build
    PytorchTrainer._known_builders.clear()  # as in another process
    again = PytorchTrainer(build, [3], device="cpu")
    again.train(ArrayDataset(*make_data()), "a", resume=True, **options)
    for name in ("a", "a_avg"):
        PytorchTrainer(stranger, [3], device="cpu")  # the newest
        assert PytorchTrainer.load(name).net_builder is build
    assert np.array_equal(again.predict(make_data()[0]), first.predict(make_data()[0]))


def test_files_and_devices_that_do_not_fit_are_refused(trained: PytorchTrainer, folder: Path) -> None:
    with pytest.raises(BadInput, match="the weights do not fit the net"):
        PytorchTrainer(build, [4], device="cpu").load("m")
    torch.save({"a": torch.zeros(1)}, folder / "foreign.pt")
    with pytest.raises(NotAResult, match="was not saved by Samovar"):
        trained.load("foreign")
    with pytest.raises(NotAResult, match="no such file"):
        trained.load("absent")
    if not torch.cuda.is_available():
        with pytest.raises(BadInput, match="device='auto'"):
            PytorchTrainer(build, device="cuda")
    with pytest.raises(BadInput, match="call train, fit or load"):
        PytorchTrainer(build).predict(np.zeros((1, 3)))


def test_a_training_without_a_finite_loss_is_refused() -> None:
    with pytest.raises(Diverged, match="not finite in any epoch"):
        PytorchTrainer(build_nan, device="cpu").fit(*make_data(), name="m", **QUIET)


def test_no_training_or_prediction_switches_the_state_of_the_users_data_set() -> None:
    losses = []
    for has_hook in (False, True):
        dataset = Augmented()
        hook = (lambda trainer, data=dataset: trainer.predict_dataset(data, verbose=False)) if has_hook else None
        for _ in range(2):
            trainer = PytorchTrainer(TwoInputs, device="cpu")
            report = trainer.train(dataset, "switched", 8, epoch_hook=hook, deterministic=True, **QUIET)
            losses.append([dict(row) for row in report.history])
    assert losses[1:] == losses[:1] * 3


class Shifted(ArrayDataset):
    def __getitem__(self, index: int) -> Any:
        x, y = super().__getitem__(index)
        return x + 100, y


class Largest(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 1)
        self.largest = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.largest = max(self.largest, float(x.max()))
        output: torch.Tensor = self.layer(x / 100)
        return output


def test_a_subclass_of_array_dataset_makes_its_own_examples() -> None:
    trainer = PytorchTrainer(Largest, device="cpu")
    trainer.train(Shifted(*make_data()), "shifted", **QUIET)
    assert isinstance(trainer.net, Largest)
    assert trainer.net.largest > 99


def test_the_users_setting_of_determinism_is_restored() -> None:
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        for is_wanted in (False, True):
            trainer = PytorchTrainer(build, device="cpu")
            trainer.train(ArrayDataset(*make_data()), "kept", deterministic=is_wanted, **QUIET)
            assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)


def build_layers(sizes: dict[int, tuple[int, int]]) -> nn.Module:
    return nn.Sequential(*(nn.Linear(*sizes[number]) for number in range(len(sizes))))


def test_arguments_of_the_builder_come_back_exactly() -> None:
    sizes = {0: (3, 4), 1: (4, 1)}
    x, y = make_data()
    trained = PytorchTrainer(build_layers, [sizes], device="cpu").fit(x, y, name="exact", **QUIET)
    loaded = PytorchTrainer.load("exact", net_builder=build_layers, device="cpu")
    np.testing.assert_array_equal(loaded.predict(x), trained.predict(x))


def test_an_unreadable_example_is_named_by_its_index_in_the_whole_data_set() -> None:
    with pytest.raises(BadInput, match="cannot read example 34"):
        PytorchTrainer(build, device="cpu").train(Failing(34), "failing", shuffle=False, **QUIET)


class Ragged(Dataset[Any]):
    """Sequences of different lengths, joined by the data set's own `collate_fn`."""

    regression_flags, scale = (1,), (0.0, 1.0)

    def __len__(self) -> int:
        return 40

    def __getitem__(self, index: int) -> Any:
        return torch.full((1 + index % 3,), float(index % 5)), torch.tensor([float(index % 5)])

    def collate_fn(self, items: list[Any]) -> Any:
        sequences, targets = zip(*items, strict=True)
        return nn.utils.rnn.pad_sequence(list(sequences), batch_first=True)[:, :1], torch.stack(targets)


@pytest.mark.parametrize("n_workers", [0, 1])
def test_the_collate_fn_of_the_data_set_joins_examples(n_workers: int) -> None:
    trainer = PytorchTrainer(build, [1], device="cpu")
    report = trainer.train(Ragged(), "ragged", 8, learning_rate=0.01, n_workers=n_workers, **{**QUIET, "n_epochs": 20})
    assert report.best_loss < report.history[0]["valid_loss"]
    assert trainer.predict_dataset(Ragged(), batch_size=7, verbose=False).shape == (40, 1)


SHOWN = """
import numpy as np
from torch import nn
import samovar
x = np.zeros((4000, 3), np.float32)
samovar.PytorchTrainer(nn.Linear, [3, 1], device="cpu").fit(x, x[:, :1] + 1, name="shown", n_epochs=3, seed=1)
"""


def test_on_a_terminal_there_is_a_progress_bar(folder: Path) -> None:
    parts: list[bytes] = []
    outer, inner = os.openpty()
    child = subprocess.Popen([sys.executable, "-c", SHOWN], stdout=inner, stderr=inner, cwd=folder)
    os.close(inner)
    with suppress(OSError):  # how the end of a terminal shows
        while True:
            parts.append(os.read(outer, 65536))
    os.close(outer)
    assert child.wait() == 0
    text = b"".join(parts).decode()
    assert "examples/s" in text
    assert "loss" in text
    assert "epoch 2 (0 left)" in text
