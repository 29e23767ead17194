"""A trainer as scikit-learn's tools use it: parameters by name that a copy can be made from. Never needs scikit-learn,
except where scikit-learn itself asks."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

import torch

from samovar.config.values import suggest
from samovar.errors import BadInput
from samovar.nets import TabularTask
from samovar.runner.device import choose_device
from samovar.trainer.predictor import Predictor

P = ParamSpec("P")
R = TypeVar("R")
E = TypeVar("E", bound="Estimator")


class Estimator(Predictor):
    """A predictor whose constructor takes the arguments of its `train`. Keeps each as it was given."""

    train: Callable[..., Any]

    def __init__(
        self,
        net_builder: Callable[..., torch.nn.Module] | None = None,
        net_build_args: Any = (),
        device: str = "auto",
        **options: Any,
    ) -> None:
        super().__init__()
        self.net_builder: Callable[..., torch.nn.Module] | None = None
        self.net_build_args = net_build_args
        self.device = choose_device(device)
        self._given_device = device
        self._options: dict[str, Any] = {}
        self.set_params(net_builder=net_builder, **options)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the arguments that make a trainer like this one, for scikit-learn.

        Args:
            deep: Ignored; scikit-learn passes it.

        Returns:
            All arguments of the constructor by name, with their defaults where they were not given.

        Example:
            ```python
            from samovar import PytorchTrainer

            print(PytorchTrainer(n_epochs=20).get_params()["n_epochs"])
            ```
        """
        own = {"net_builder": self.net_builder, "net_build_args": self.net_build_args, "device": self._given_device}
        return {**own, **self._defaults(), **self._options}

    def set_params(self, **params: Any) -> Self:
        """Change arguments of the constructor, for scikit-learn.

        Args:
            **params: Arguments of the constructor. After another builder, or other arguments of it, there is a new net.

        Returns:
            This trainer.

        Raises:
            BadInput: There is no such argument, or it is wrong.

        Example:
            ```python
            from samovar import PytorchTrainer

            trainer = PytorchTrainer().set_params(n_epochs=20, fast=True)
            ```
        """
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise BadInput(f"PytorchTrainer has no argument {name!r}{suggest(name, known)}")
            if name in ("net_builder", "net_build_args"):
                if name == "net_builder" and value is not None and not callable(value):
                    raise BadInput(f"net_builder must be a function that returns a new net, got {type(value).__name__}")
                setattr(self, name, value)
                self._forget()
            elif name == "device":
                self.device, self._given_device = choose_device(value), value
            else:
                self._options[name] = value
        return self

    def _defaults(self) -> dict[str, Any]:
        """What the constructor takes besides the net: the arguments of `train`. `fit` keeps no files unless it is given
        a name."""
        parameters = inspect.signature(type(self).train).parameters.values()
        defaults = {each.name: each.default for each in parameters if each.name not in ("self", "dataset")}
        return {**defaults, "name": None, "fast": False}

    def _given_options(self) -> dict[str, Any]:
        """The options that are not defaults. scikit-learn makes copies with all of them."""
        defaults = self._defaults()
        return {name: value for name, value in self._options.items() if value is not defaults[name]}

    def __repr__(self) -> str:
        options = [f"{name}={value!r}" for name, value in self._given_options().items()]
        built = [] if self.net_builder is None else [getattr(self.net_builder, "__name__", repr(self.net_builder))]
        if self.net_builder is not None and self.net_build_args:
            built.append(repr(self.net_build_args))
        return f"{type(self).__name__}({', '.join([*built, *options])})"

    def __sklearn_is_fitted__(self) -> bool:
        return self.criterion is not None

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, InputTags, RegressorTags, Tags, TargetTags

        task = self.criterion if isinstance(self.criterion, TabularTask) else None
        kind = None if task is None else "regressor" if task.classes is None else "classifier"
        return Tags(
            estimator_type=kind,
            target_tags=TargetTags(required=True),
            transformer_tags=None,
            classifier_tags=ClassifierTags() if kind == "classifier" else None,
            regressor_tags=RegressorTags() if kind == "regressor" else None,
            input_tags=InputTags(allow_nan=self.net_builder is None, categorical=True, string=True),
        )


def with_options(method: Callable[Concatenate[E, P], R]) -> Callable[Concatenate[E, P], R]:
    """Let a method take the arguments that were given to the constructor, where the call does not give its own."""
    signature = inspect.signature(method)

    @wraps(method)
    def call(self: E, /, *args: P.args, **kwargs: P.kwargs) -> R:
        given = signature.bind(self, *args, **kwargs).arguments
        missing = {name: value for name, value in self._given_options().items() if name not in given and name != "fast"}
        return method(self, *args, **{**missing, **kwargs})

    return call
