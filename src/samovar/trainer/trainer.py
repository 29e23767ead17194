"""`PytorchTrainer`: train, load, predict. Builds what one training needs, and keeps the net in memory."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import torch

from samovar import seeds
from samovar.callbacks.best_nets import Weights
from samovar.data import ArrayDataset, BatchMaker, split_examples
from samovar.data.arrays import as_tensor
from samovar.data.batches import check_dataset
from samovar.errors import BadInput
from samovar.results import OpenResult
from samovar.runner import Callback, Run
from samovar.runner.step import frozen
from samovar.trainer.criteria import MixedCriterion, Part
from samovar.trainer.net_file import (
    NetFile,
    describe_criterion,
    load_weights,
    path_of,
    plain,
    read_net,
    restore_criterion,
    write_net,
)
from samovar.trainer.report import Report
from samovar.trainer.steps import DatasetStream, predict_stream, to_numpy
from samovar.trainer.training import Options, RunOptions, Training, find_device
from samovar.training.facade import check_count, kept_config, open_facade

NetBuilder = Callable[..., torch.nn.Module]


class _Load:
    """`PytorchTrainer.load(name)` makes a new trainer, `trainer.load(name)` fills this one."""

    def __get__(self, trainer: Any, owner: Any) -> Callable[..., Any]:
        load: Callable[..., Any] = owner._load_new if trainer is None else trainer._load_here
        return load


class PytorchTrainer:
    """`net_builder(*net_build_args)` gives a fresh net. It is called once, when the net is first needed."""

    load = _Load()
    _given: ClassVar[dict[str, tuple[NetBuilder, Any]]] = {}
    """Builders that trainers of this process were given: by the file that they wrote, and the newest as ''."""

    def __init__(self, net_builder: NetBuilder, net_build_args: Any = (), device: str = "auto") -> None:
        if not callable(net_builder):
            raise BadInput(
                f"PytorchTrainer: found a net_builder of type {type(net_builder).__name__}; expected a function that "
                "returns a fresh net: wrap it, for example lambda: net"
            )
        self.net_builder = net_builder
        self.net_build_args = net_build_args
        self.device = find_device(device)
        self.criterion: Any = None
        self.report: Report | None = None
        """Of the last training."""
        self._net: torch.nn.Module | None = None
        PytorchTrainer._given[""] = net_builder, net_build_args

    @property
    def net(self) -> torch.nn.Module:
        """The net in memory."""
        if self._net is None:
            args = self.net_build_args
            net = self.net_builder(**args) if isinstance(args, Mapping) else self.net_builder(*(args or ()))
            if not isinstance(net, torch.nn.Module):
                raise BadInput(
                    f"net_builder: returned {type(net).__name__}; expected a torch.nn.Module: return the net"
                )
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
        """Train on a part of the data set and judge by the rest; the best net is in memory and in `<name>.pt`."""
        options = Options(
            batch_size, n_epochs, train_prop, learning_rate, repeat_train, repeat_valid, n_best_nets, with_restarts,
            shuffle, patience, clip_norm, deterministic,
        )  # fmt: skip
        run_options = RunOptions(n_workers, verbose, epoch_hook, snapshot_seconds)
        check_dataset(dataset)
        split = split_examples(len(dataset), train_prop, shuffle)
        path = Path(name).expanduser()
        folder, kept = choose_folder(path, resume)
        chosen = seed if seed is not None else kept.get("seed", None)
        if seed is not None:
            seeds.set_seed(seed)
        chosen = seeds.draw_seed() if chosen is None else chosen
        _ = self.net  # before anything else draws random numbers
        self.criterion = make_criterion(criterion, Part(dataset, split.train))
        config = options.config(chosen, len(dataset), type(self.criterion).__name__, optimizer)
        training = Training(
            self.net, self.criterion, BatchMaker(dataset, chosen), split, options, run_options, self.device, path,
            lambda ending, weights, epoch, loss: self._save(path, ending, weights, epoch, loss), optimizer,
        )  # fmt: skip
        with open_facade(folder, "PytorchTrainer", config) as result:
            hook = None if epoch_hook is None else _Hook(self, epoch_hook)
            report = self._known(result, path) if result.is_finished else training.run(result, hook)
        self.report = report
        if verbose:
            print(report)
        return report

    def fit(self, inputs: Any, targets: Any, weights: Any = None, **options: Any) -> Self:
        """`train` on numpy arrays, tensors or pandas frames: one of them, or a list for several inputs."""
        self.train(ArrayDataset(inputs, targets, weights), **options)
        return self

    def _known(self, result: OpenResult, path: Path) -> Report:
        """A training that was finished before: its best net, and nothing else to do."""
        final = result.directory.load_model()
        states, run = final.tree["callbacks"], final.tree["run"]
        best = states["BestNets"]["nets"][0]
        weights = {name.removeprefix("net."): value for name, value in best["weights"].items()}
        load_weights(self.net, weights, result.directory.name)
        averaged, nets = final.position["averaged_loss"], final.position["num_averaged"]
        for ending in ("", "_avg") if result.directory.config["n_best_nets"] > 1 else ("",):
            self._remember(path, ending)
        folder = Path(result.directory.name)
        return Report(
            str(path), states["History"]["rows"], best["epoch"], best["loss"], averaged, nets, run["end_reason"], folder
        )

    def _save(self, path: Path, ending: str, weights: Weights, epoch: int, loss: float) -> None:
        file = self._remember(path, ending)
        write_net(file, NetFile(weights, plain(self.net_build_args), describe_criterion(self.criterion), epoch, loss))

    def _remember(self, path: Path, ending: str) -> Path:
        """That this trainer's builder makes the net in that file."""
        file = path_of(path.with_name(path.name + ending))
        PytorchTrainer._given[str(file.resolve())] = self.net_builder, self.net_build_args
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
        known = cls._given.get(str(path_of(name).resolve()), cls._given.get(""))
        saved = read_net(path_of(name)).build_args
        if net_builder is None and known is None:
            raise BadInput(
                f"{path_of(name)}: no net_builder is known in this process; expected one, no code is found by a "
                "name in a file: give load(name, net_builder=…)"
            )
        if net_builder is None and known is not None:
            net_builder, args = known
        else:
            args = saved
        if net_build_args is not None:
            args = net_build_args
        elif saved is not None:
            args = saved
        if args is None:
            raise BadInput(
                f"{path_of(name)}: the arguments of its builder were no plain data and are not in it; expected them: "
                "give load(name, net_build_args=…)"
            )
        assert net_builder is not None
        return cls(net_builder, args, device)._load_here(name, criterion=criterion)

    def _load_here(self, name: str | Path, device: str | None = None, criterion: Any = None) -> Self:
        path = path_of(name)
        saved = read_net(path)
        if device is not None:
            self.device = find_device(device)
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
        """The predictions of all examples, in order. Targets are not needed."""
        check_count("batch_size", batch_size)
        check_count("n_workers", n_workers, 0)
        check_dataset(dataset)
        maker = BatchMaker(dataset, 0)
        order = torch.arange(len(dataset))
        stream = DatasetStream(maker, order, batch_size, 0, n_workers, self.device)
        return predict_stream(self.net, self._postproc(), stream, verbose)

    def predict(self, *data: Any) -> np.ndarray[Any, Any]:
        """The predictions for raw inputs, each with an axis of examples: arrays, tensors, frames."""
        postproc = self._postproc()
        inputs = [as_tensor(each, f"input {number}").to(self.device) for number, each in enumerate(data)]
        with frozen(self.net, 0), torch.no_grad():
            return to_numpy(postproc(self.net(*inputs)))

    def _postproc(self) -> Callable[[Any], Any]:
        if self.criterion is None:
            raise BadInput(
                "PytorchTrainer: neither trained nor loaded yet; expected a net that has learned: call train or load"
            )
        postproc: Callable[[Any], Any] = self.criterion.postproc
        return postproc


class _Hook(Callback):
    """The user's function, after each epoch."""

    def __init__(self, trainer: PytorchTrainer, hook: Callable[[Any], None]) -> None:
        self._trainer = trainer
        self._hook = hook

    def on_uri_end(self, run: Run) -> None:
        self._hook(self._trainer)


def choose_folder(path: Path, resume: bool) -> tuple[Path, dict[str, Any]]:
    """`<name>/<k>`: the newest one to go on with, else a new one; and the config that it has."""
    numbers = sorted(int(each.name) for each in path.glob("*") if each.name.isdigit()) if path.is_dir() else []
    if resume and numbers:
        folder = path / str(numbers[-1])
        return folder, kept_config(folder)
    return path / str(numbers[-1] + 1 if numbers else 0), {}


def make_criterion(criterion: Any, part: Part) -> Any:
    if isinstance(criterion, str):
        if criterion != "auto":
            raise BadInput(f"criterion: found {criterion!r}; expected 'auto', a class or an object: give one")
        criterion = MixedCriterion
    if not callable(criterion) or not hasattr(criterion, "postproc"):
        kind = criterion if isinstance(criterion, type) else type(criterion)
        raise BadInput(
            f"criterion: {kind.__name__} has no postproc or cannot be called; expected both "
            "__call__(output, target, weights=None, unscaled=False) and postproc(pred): add them"
        )
    return criterion(part) if isinstance(criterion, type) else criterion
