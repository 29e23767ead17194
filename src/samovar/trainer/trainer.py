"""`PytorchTrainer`: train, load, predict. Puts together what one training needs, and keeps the net in memory."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import numpy as np
import torch

from samovar import seeds
from samovar.callbacks.best_nets import Weights
from samovar.data import ArrayDataset, BatchMaker, split_examples
from samovar.data.batches import check_dataset
from samovar.data.examples import as_tensor
from samovar.errors import BadInput
from samovar.results import OpenResult
from samovar.runner import Callback, Run
from samovar.runner.step import frozen
from samovar.trainer.criteria import MixedCriterion, TrainingSubset
from samovar.trainer.net_file import (
    NetFile,
    as_plain_data,
    describe_criterion,
    load_weights,
    net_path,
    read_net,
    restore_criterion,
    write_net,
)
from samovar.trainer.report import Report
from samovar.trainer.steps import DatasetStream, predict_stream, to_numpy
from samovar.trainer.training import Options, RunOptions, Training, choose_device
from samovar.training.facade import check_count, kept_config, open_facade

NetBuilder: TypeAlias = Callable[..., torch.nn.Module]


class _LoadMethod:
    """`PytorchTrainer.load(name)` returns a new trainer; `trainer.load(name)` loads into this one and returns it."""

    def __get__(self, trainer: Any, owner: Any) -> Callable[..., Any]:
        load: Callable[..., Any] = owner._load_new if trainer is None else trainer._load_into
        return load


class PytorchTrainer:
    """Trains a net on a data set in one call, with a validation split, early stopping, restarts and crash recovery.

    ```python
    import numpy as np
    from torch import nn
    from samovar import PytorchTrainer


    def build(num_inputs, width):
        return nn.Sequential(nn.Linear(num_inputs, width), nn.ReLU(), nn.Linear(width, 1))


    x = np.random.randn(1000, 5)
    y = x[:, :1] * 3 - x[:, 1:2]

    trainer = PytorchTrainer(build, [5, 32])
    trainer.fit(x, y, name="model", n_epochs=20)  # the best net is in memory and in model.pt
    predictions = trainer.predict(x)

    same = PytorchTrainer.load("model", net_builder=build)
    ```

    **Training.** `fit` takes arrays, tensors and pandas frames; `train` takes a data set. Each epoch trains on one part
    of the examples and measures the loss on the rest. Every new lowest validation loss saves the net as `<name>.pt`.
    Progress is a validation loss more than 0.5 % below the one at the last progress. Without it, the learning rate is
    cut, the optimizer is restarted, and after `patience` epochs the training ends. An empty file `stop_<name>` ends it
    after the current epoch. In the end, the best net is in memory; another `train` continues from it.

    **Files.** `<name>.pt` is the best net and `<name>_avg.pt` the average of the best ones; both hold weights and JSON,
    no code. Each call of `train` also has a result directory, `<name>/0`, `<name>/1`, …, with metrics, TensorBoard
    events, the learning curve and snapshots. `train(…, resume=True)` continues the newest one after a crash, and ends
    with the same bits as a training that was never interrupted.

    **Loading.** `PytorchTrainer.load(name, device="auto", net_builder=None, net_build_args=None, criterion=None)`
    returns a new trainer. Without `net_builder`, it uses the one that wrote the file in this process; files never name
    code. `trainer.load(name, device=None, criterion=None)` loads into a trainer that you have. Pass `criterion` if you
    trained with your own.

    **Data sets** have `__len__`, and `__getitem__` that returns `(input, target)` or `(input, weight, target)`. Several
    inputs are a list. Optionally they have:

    - `collate_fn(items)`, which joins examples into a minibatch.
    - `regression_flags` and `scale`, which describe the target; see `MixedCriterion`.
    - `switch_state()`, which is called before each minibatch: minibatch k is made after k + 1 calls, whatever
      `n_workers` is.

    Args:
        net_builder: A function or class that returns a new net. It is called once, when the net is first needed.
        net_build_args: The arguments of `net_builder`: a list, or a dict of keyword arguments.
        device: `"auto"` is CUDA if there is one; or the name of a device of torch.

    Attributes:
        net: The net in memory.
        criterion: The criterion of the last training, or of the file that was loaded.
        report: The report of the last training; None before.

    Raises:
        BadInput: `net_builder` cannot be called, or there is no such device.
    """

    load = _LoadMethod()
    _known_builders: ClassVar[dict[str, tuple[NetBuilder, Any]]] = {}
    """Builders and their arguments, by the net file they belong to; the newest of this process is under ''."""

    def __init__(self, net_builder: NetBuilder, net_build_args: Any = (), device: str = "auto") -> None:
        if not callable(net_builder):
            raise BadInput(f"net_builder must be a function that returns a new net, got {type(net_builder).__name__}")
        self.net_builder = net_builder
        self.net_build_args = net_build_args
        self.device = choose_device(device)
        self.criterion: Any = None
        self.report: Report | None = None
        self._net: torch.nn.Module | None = None
        PytorchTrainer._known_builders[""] = net_builder, net_build_args

    @property
    def net(self) -> torch.nn.Module:
        """The net in memory; it is built on first use."""
        if self._net is None:
            args = self.net_build_args
            net = self.net_builder(**args) if isinstance(args, Mapping) else self.net_builder(*(args or ()))
            if not isinstance(net, torch.nn.Module):
                raise BadInput(f"net_builder must return a torch.nn.Module, got {type(net).__name__}")
            self._net = net.to(self.device)
        return self._net

    # Training

    def train(
        self,
        dataset: Any,
        name: str | Path = "pytorch_model",
        batch_size: int = 16,
        criterion: Any = "auto",
        n_epochs: int = 50,
        train_prop: float = 0.9,
        learning_rate: float = 1e-3,
        n_workers: int = 0,
        verbose: bool = True,
        epoch_hook: Callable[[Any], None] | None = None,
        repeat_train: int = 1,
        repeat_valid: int = 1,
        n_best_nets: int = 1,
        with_restarts: bool = True,
        shuffle: bool = True,
        *,
        resume: bool = False,
        seed: int | None = None,
        patience: int | None = None,
        clip_norm: float | None = None,
        deterministic: bool = False,
        optimizer: Callable[..., torch.optim.Optimizer] = torch.optim.RAdam,
        snapshot_seconds: float = 30.0,
    ) -> Report:
        """Train on one part of a data set and validate on the rest.

        Args:
            dataset: A `torch.utils.data.Dataset`, or anything like it; see the class for what it may have.
            name: Where to write: `<name>.pt`, `<name>_avg.pt` and the directories `<name>/0`, `<name>/1`, …
            batch_size: Examples per minibatch.
            criterion: `"auto"` is `MixedCriterion`. A class is called with the training part; an object is used as it
                is. See `samovar.trainer.Criterion` for what it needs.
            n_epochs: The most epochs to train.
            train_prop: The share of examples to train on.
            learning_rate: The initial learning rate.
            n_workers: Processes that make minibatches; with 0, this one does. It does not change the result.
            verbose: Print a line per epoch, a progress bar on a terminal, and the report.
            epoch_hook: A function of this trainer, called after each epoch.
            repeat_train: How many times an epoch goes through the training part.
            repeat_valid: How many times it goes through the validation part, for data sets with random augmentation.
            n_best_nets: How many nets to keep. If more than one, those within 10 % of the lowest loss are averaged.
            with_restarts: Restart the optimizer at the initial rate when there is no progress, before cutting the rate.
            shuffle: Choose the parts by a fixed hash of the index; otherwise the tail is the validation part.
            resume: Continue the newest directory of this name. If it is finished, only load its net.
            seed: The seed of everything random. By default it is drawn, and kept with the run.
            patience: Epochs without progress until training ends; by default 15 % of `n_epochs`.
            clip_norm: Scale gradients down to this norm.
            deterministic: Let torch use only algorithms that give the same bits each time.
            optimizer: Called as `optimizer(parameters, lr=learning_rate)`, and wrapped in `Lookahead`.
            snapshot_seconds: The least time between snapshots, which are taken at the end of an epoch.

        Returns:
            The history of losses, the best epoch and the paths; also kept as `report`.

        Raises:
            BadInput: An argument or the data set is wrong.
            Conflict: With `resume`, the run has other arguments.
            Diverged: The validation loss was not finite in any epoch.
        """
        options = Options(
            batch_size, n_epochs, train_prop, learning_rate, repeat_train, repeat_valid, n_best_nets, with_restarts,
            shuffle, patience, clip_norm, deterministic,
        )  # fmt: skip
        run_options = RunOptions(n_workers, verbose, snapshot_seconds)
        check_dataset(dataset)
        split = split_examples(len(dataset), train_prop, shuffle)
        path = Path(name).expanduser()
        folder, kept = choose_folder(path, resume)
        run_seed = seed if seed is not None else kept.get("seed", None)
        if seed is not None:
            seeds.set_seed(seed)
        run_seed = seeds.draw_seed() if run_seed is None else run_seed
        _ = self.net  # before anything else draws random numbers
        self.criterion = make_criterion(criterion, TrainingSubset(dataset, split.train))
        config = options.config(run_seed, len(dataset), type(self.criterion).__name__, optimizer)
        training = Training(
            self.net, self.criterion, BatchMaker(dataset, run_seed), split, options, run_options, self.device, path,
            lambda suffix, weights, epoch, loss: self._save(path, suffix, weights, epoch, loss), optimizer,
        )  # fmt: skip
        with open_facade(folder, "PytorchTrainer", config) as result:
            hook = None if epoch_hook is None else _EpochHook(self, epoch_hook)
            report = self._load_finished(result, path) if result.is_finished else training.run(result, hook)
        self.report = report
        if verbose:
            print(report)
        return report

    def fit(self, inputs: Any, targets: Any, weights: Any = None, **options: Any) -> Self:
        """Train on arrays.

        Args:
            inputs: A numpy array, tensor or pandas frame with one row per example; a list of them for several inputs.
            targets: What to predict, one row per example.
            weights: The weight of each example, or of each of its outputs.
            **options: The arguments of `train`, except `dataset`.

        Returns:
            This trainer.

        Raises:
            BadInput: The arrays or the options are wrong.
        """
        self.train(ArrayDataset(inputs, targets, weights), **options)
        return self

    def _load_finished(self, result: OpenResult, path: Path) -> Report:
        """Load the best net of a training that was finished earlier."""
        final = result.directory.load_model()
        states, run = final.tree["callbacks"], final.tree["run"]
        best = states["BestNets"]["nets"][0]
        weights = {name.removeprefix("net."): value for name, value in best["weights"].items()}
        load_weights(self.net, weights, result.directory.name)
        averaged, nets = final.position["averaged_loss"], final.position["num_averaged"]
        for suffix in ("", "_avg") if result.directory.config["n_best_nets"] > 1 else ("",):
            self._remember_builder(path, suffix)
        folder = Path(result.directory.name)
        return Report(
            str(path), states["History"]["rows"], best["epoch"], best["loss"], averaged, nets, run["end_reason"], folder
        )

    def _save(self, path: Path, suffix: str, weights: Weights, epoch: int, loss: float) -> None:
        file = self._remember_builder(path, suffix)
        build_args, criterion = as_plain_data(self.net_build_args), describe_criterion(self.criterion)
        write_net(file, NetFile(weights, build_args, criterion, epoch, loss))

    def _remember_builder(self, path: Path, suffix: str) -> Path:
        """Remember that this trainer's builder makes the net in a file."""
        file = net_path(path.with_name(path.name + suffix))
        PytorchTrainer._known_builders[str(file.resolve())] = self.net_builder, self.net_build_args
        return file

    # Loading

    @classmethod
    def _load_new(
        cls,
        name: str | Path,
        device: str = "auto",
        net_builder: NetBuilder | None = None,
        net_build_args: Any = None,
        criterion: Any = None,
    ) -> Self:
        path = net_path(name)
        known = cls._known_builders.get(str(path.resolve()), cls._known_builders.get(""))
        args = saved_args = read_net(path).build_args
        if net_builder is None:
            if known is None:
                raise BadInput(f"{path}: files hold no code. Pass the builder: load(name, net_builder=…)")
            net_builder, args = known
        if net_build_args is not None:
            args = net_build_args
        elif saved_args is not None:
            args = saved_args
        if args is None:
            raise BadInput(
                f"{path}: the arguments of the builder were not plain data, so the file does not hold them. Pass them: "
                "load(name, net_build_args=…)"
            )
        return cls(net_builder, args, device)._load_into(name, criterion=criterion)

    def _load_into(self, name: str | Path, device: str | None = None, criterion: Any = None) -> Self:
        path = net_path(name)
        saved = read_net(path)
        if device is not None:
            self.device = choose_device(device)
            self.net.to(self.device)
        load_weights(self.net, saved.weights, str(path))
        given = criterion
        if given is None and saved.criterion["kind"] == "own" and not isinstance(self.criterion, MixedCriterion):
            given = self.criterion
        self.criterion = restore_criterion(path, saved.criterion, given)
        return self

    # Predicting

    def predict_dataset(
        self, dataset: Any, batch_size: int = 1, verbose: bool = True, n_workers: int = 0
    ) -> np.ndarray[Any, Any]:
        """Predict all examples of a data set.

        Args:
            dataset: As for `train`; targets are not needed. A tuple of two is always (input, target).
            batch_size: Examples per minibatch.
            verbose: Show a progress bar on a terminal.
            n_workers: Processes that make minibatches; with 0, this one does.

        Returns:
            The predictions in the order of the examples.

        Raises:
            BadInput: An argument is wrong, or the trainer was neither trained nor loaded.
        """
        check_count("batch_size", batch_size)
        check_count("n_workers", n_workers, 0)
        check_dataset(dataset)
        maker = BatchMaker(dataset, 0)
        order = torch.arange(len(dataset))
        stream = DatasetStream(maker, order, batch_size, 0, n_workers, self.device)
        return predict_stream(self.net, self._postproc(), stream, verbose)

    def predict(self, *data: Any) -> np.ndarray[Any, Any]:
        """Predict from arrays, in one minibatch.

        Args:
            *data: The inputs of the net, each a numpy array, tensor or pandas frame with one row per example.

        Returns:
            The predictions, one row per example.

        Raises:
            BadInput: The inputs are not numbers, or the trainer was neither trained nor loaded.
        """
        postproc = self._postproc()
        inputs = [as_tensor(each, f"input {number}").to(self.device) for number, each in enumerate(data)]
        with frozen(self.net, 0), torch.no_grad():
            return to_numpy(postproc(self.net(*inputs)))

    def _postproc(self) -> Callable[[Any], Any]:
        if self.criterion is None:
            raise BadInput("the trainer has no trained net yet: call train or load first")
        postproc: Callable[[Any], Any] = self.criterion.postproc
        return postproc


class _EpochHook(Callback):
    """Calls the user's function after each epoch."""

    def __init__(self, trainer: PytorchTrainer, hook: Callable[[Any], None]) -> None:
        self._trainer = trainer
        self._hook = hook

    def on_uri_end(self, run: Run) -> None:
        self._hook(self._trainer)


def choose_folder(path: Path, resume: bool) -> tuple[Path, dict[str, Any]]:
    """`<name>/<k>`: the newest one to resume, otherwise a new one; and the config that it has."""
    numbers = sorted(int(each.name) for each in path.glob("*") if each.name.isdigit()) if path.is_dir() else []
    if resume and numbers:
        folder = path / str(numbers[-1])
        return folder, kept_config(folder)
    return path / str(numbers[-1] + 1 if numbers else 0), {}


def make_criterion(criterion: Any, subset: TrainingSubset) -> Any:
    if isinstance(criterion, str):
        if criterion != "auto":
            raise BadInput(f"criterion must be 'auto', a class or an object, got {criterion!r}")
        criterion = MixedCriterion
    if not callable(criterion) or not hasattr(criterion, "postproc"):
        kind = criterion if isinstance(criterion, type) else type(criterion)
        raise BadInput(
            f"criterion: {kind.__name__} must have __call__(output, target, weights=None, unscaled=False) and "
            "postproc(pred)"
        )
    return criterion(subset) if isinstance(criterion, type) else criterion
