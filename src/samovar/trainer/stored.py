"""The net of a trainer: built when it is first needed, described for a file, loaded from one. Knows no training."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

import torch

from samovar.callbacks.best_nets import Weights
from samovar.config.records import in_file
from samovar.errors import BadInput
from samovar.nets import TablePreprocessor, TabularNet
from samovar.runner.device import choose_device
from samovar.trainer.criteria import MixedCriterion
from samovar.trainer.estimator import Estimator
from samovar.trainer.inputs import InputScales
from samovar.trainer.net_file import (
    KIND,
    RUN_FILE,
    NetFile,
    as_plain_data,
    check_size,
    describe_criterion,
    describe_rows,
    find_net,
    in_own_code,
    load_weights,
    net_path,
    read_net,
    restore_criterion,
    restore_rows,
)

NetBuilder: TypeAlias = Callable[..., torch.nn.Module]
NUM_MEMBERS = 8
"""Of the net for tables; with `fast` it has one."""


class _LoadMethod:
    """`PytorchTrainer.load(name)` returns a new trainer; `trainer.load(name)` loads into this one and returns it."""

    def __get__(self, trainer: Any, owner: Any) -> Callable[..., Any]:
        load: Callable[..., Any] = owner._load_new if trainer is None else trainer._load_into
        return load


class StoredNet(Estimator):
    """A net in memory and in files.

    Attributes:
        net: The net in memory.
    """

    load = _LoadMethod()
    _known_builders: ClassVar[dict[str, tuple[NetBuilder, Any]]] = {}
    """Builders and their arguments, by the net file they belong to; the newest of this process is under ''."""

    def __init__(
        self,
        net_builder: NetBuilder | None = None,
        net_build_args: Any = (),
        device: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__(net_builder, net_build_args, device, **options)
        self._num_members = NUM_MEMBERS
        if net_builder is not None:
            StoredNet._known_builders[""] = net_builder, net_build_args

    @property
    def net(self) -> torch.nn.Module:
        """The net in memory; it is built on first use."""
        if self._net is None:
            self._net = self._build().to(self.device)
        return self._net

    def _build(self) -> torch.nn.Module:
        if isinstance(self._rows, TablePreprocessor):
            return TabularNet(self._rows.inputs, self.criterion.num_outputs, self._num_members)
        if self.net_builder is None:
            raise BadInput("there is no net yet: call fit or load, or pass net_builder")
        args = self.net_build_args
        net = self.net_builder(**args) if isinstance(args, Mapping) else self.net_builder(*(args or ()))
        if not isinstance(net, torch.nn.Module):
            raise BadInput(f"net_builder must return a torch.nn.Module, got {type(net).__name__}")
        return net

    def _describe(self, weights: Weights, epoch: int, loss: float) -> dict[str, Any]:
        """The net as a file holds it."""
        build_args: Any = as_plain_data(self.net_build_args)
        if isinstance(self._rows, TablePreprocessor):
            build_args = {"num_members": self._num_members}
            average = "average."  # the net that predicts; the other one is only trained
            weights = {name.removeprefix(average): value for name, value in weights.items() if name.startswith(average)}
        return {
            "kind": KIND,
            "weights": dict(weights),
            "build_args": build_args,
            "criterion": describe_criterion(self.criterion),
            "scales": self._scales.state_dict(),
            "rows": describe_rows(self._rows, self._target_name),
            "epoch": epoch,
            "loss": loss,
        }

    def _remember_builder(self, path: Path, folder: Path) -> None:
        """Remember that this trainer's builder makes the nets of a training."""
        if self.net_builder is not None:
            for file in (net_path(path), net_path(path, "_avg"), folder / RUN_FILE):
                StoredNet._known_builders[str(file.resolve())] = self.net_builder, self.net_build_args

    @classmethod
    def _load_new(
        cls,
        name: str | Path,
        device: str = "auto",
        net_builder: NetBuilder | None = None,
        net_build_args: Any = None,
        criterion: Any = None,
        run: int | None = None,
    ) -> Self:
        path = find_net(name, run)
        saved = read_net(path)
        if saved.is_table:
            return cls(device=device)._load(path, saved, criterion)
        known = cls._known_builders.get(str(path.resolve()), cls._known_builders.get(""))
        args = saved.build_args
        if net_builder is None:
            if known is None:
                raise BadInput(f"{path}: files hold no code. Pass the builder: load(name, net_builder=…)")
            net_builder, args = known
        if net_build_args is not None:
            args = net_build_args
        elif saved.build_args is not None:
            args = saved.build_args
        if args is None:
            raise BadInput(
                f"{path}: the arguments of the builder were not plain data, so the file does not hold them. Pass them: "
                "load(name, net_build_args=…)"
            )
        trainer = cls(net_builder, args, device)
        if args is saved.build_args:
            with in_own_code(f"{path}: the builder failed with the arguments in the file, {_shorten(args)}"):
                check_size(trainer._build, path)
                trainer._net = trainer._build()
        return trainer._load(path, saved, criterion)

    def _load_into(
        self, name: str | Path, device: str | None = None, criterion: Any = None, run: int | None = None
    ) -> Self:
        path = find_net(name, run)
        if device is not None:
            self.device = choose_device(device)
        return self._load(path, read_net(path), criterion)

    def _load(self, path: Path, saved: NetFile, criterion: Any) -> Self:
        """Take over everything that a file holds."""
        if saved.is_table != (self.net_builder is None):
            needs = (
                "no builder: PytorchTrainer.load(name)" if saved.is_table else "a builder: PytorchTrainer(net_builder)"
            )
            raise BadInput(f"{path}: the net in it needs {needs}")
        if criterion is None and saved.criterion.kind == "own" and not isinstance(self.criterion, MixedCriterion):
            criterion = self.criterion
        scales = InputScales()
        with in_file(path):
            scales.load_state_dict(saved.scales)
            num_members = saved.num_members if saved.is_table else self._num_members
        rows, target_name = restore_rows(path, saved)
        self.criterion = restore_criterion(path, saved, criterion)
        self._rows, self._target_name, self._scales, self._num_members = rows, target_name, scales, num_members
        if saved.is_table:
            self._net = None
            check_size(self._build, path)
        load_weights(self.net, saved.weights, str(path))
        self.net.to(self.device)
        self._is_trained = True
        return self


def _shorten(args: Any) -> str:
    text = repr(args)
    return text if len(text) <= 60 else f"{text[:59]}…"
