"""A device that is not the CPU: it computes there, and refuses to mix its tensors with others, as CUDA does.

Call `register` only in a process of its own: torch forgets no device.
"""

import functools
from typing import Any

import torch
from torch.utils import backend_registration
from torch.utils._pytree import tree_map

NAME = "fake"
_OWN = ("detach", "alias", "t", "view", "_unsafe_view", "squeeze", "squeeze.dim", "unsqueeze", "expand", "permute",
        "transpose.int", "split_with_sizes", "slice.Tensor", "select.int", "unbind.int", "sum.dim_IntList")  # fmt: skip
"""Operators that torch would compute without asking the device."""
_libraries: list[Any] = []
"""They undo their work when they are freed."""


class FakeTensor(torch.Tensor):
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "FakeTensor":
        made: Any = torch._C._acc.create_empty_tensor(held.shape, held.dtype)
        made.__class__ = cls
        return made  # type: ignore[no-any-return]

    def __init__(self, held: torch.Tensor) -> None:
        self.held = held


def register() -> torch.device:
    """Make the device known to torch."""
    backend_registration._setup_privateuseone_for_python_backend(NAME)
    library: Any = torch.library.Library  # torch gives it no types
    every, aten = library("_", "IMPL"), library("aten", "IMPL")
    every.fallback(_run, "PrivateUse1")
    for name in _OWN:
        base, _, overload = name.partition(".")
        operator = getattr(getattr(torch.ops.aten, base), overload or "default")
        aten.impl(name, functools.partial(_run, operator), "PrivateUse1")
    _libraries.extend([every, aten])
    return torch.device(NAME)


def _run(operator: Any, *arguments: Any, **options: Any) -> Any:
    if operator is torch.ops.aten._copy_from.default:
        source, target = map(_held, arguments[:2])
        target.copy_(source)
        return arguments[1]
    given = [each for each in [*arguments, *options.values()] if isinstance(each, torch.Tensor)]
    if any(not isinstance(each, FakeTensor) and each.dim() > 0 for each in given):
        raise RuntimeError(f"{operator}: tensors on {', '.join(str(each.device) for each in given)}")
    found = operator(*tree_map(_held, arguments), **tree_map(_held, options))
    known = {id(_held(each)): each for each in given}
    return tree_map(lambda each: known.get(id(each), _wrap(each)), found)


def _held(value: Any) -> Any:
    if isinstance(value, FakeTensor):
        return value.held
    return torch.device("cpu") if isinstance(value, torch.device) else value


def _wrap(value: Any) -> Any:
    return FakeTensor(value) if isinstance(value, torch.Tensor) else value
