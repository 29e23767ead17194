"""`torch.compile` with bits that do not depend on which minibatch came first. Knows no steps.

By default the compiler learns sizes from the first minibatch: it compiles for exactly these, then for any; it takes two
sizes that are equal by chance for one; and it splits sums among threads as it suits them. A resumed run meets other
minibatches first. So here all sizes vary from the start, and code is made for one assumed size, `ASSUMED_SIZE`.
"""

import logging
import os
import shutil
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch

from samovar.errors import BadInput
from samovar.runner.learner import find_hash_tables
from samovar.runner.scaling import RunningScale

ASSUMED_SIZE = 1024
_MAX_VARIANTS = 64
_COMPILERS = ("g++", "clang++", "c++")
_log = logging.getLogger(__name__)


def compile_for_training(model: torch.nn.Module) -> Callable[..., Any]:
    """The model as a function, whose dense part is compiled. Hash tables and running scales are called as they are.

    Raises:
        BadInput: There is no C++ compiler.
    """
    if not any(map(shutil.which, [os.environ.get("CXX", ""), *_COMPILERS])):
        raise BadInput("compile needs a C++ compiler, and there is none. Install g++, or leave out compile")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch's own parts
        import torch._inductor.compile_fx  # takes seconds
        import torch.fx.experimental._config

    warnings.filterwarnings("ignore", message="The .grad attribute of a Tensor")  # the compiler itself looks at it
    torch.fx.experimental._config.use_duck_shape = False
    torch._dynamo.config.recompile_limit = max(torch._dynamo.config.recompile_limit, _MAX_VARIANTS)
    scales = [module for module in model.modules() if isinstance(module, RunningScale)]
    for module in [*find_hash_tables(model), *scales]:
        for name in ("forward", "concat"):
            if hasattr(module, name):
                left_alone = torch.compiler.disable(getattr(module, name))  # type: ignore[no-untyped-call]  # torch's
                setattr(module, name, left_alone)
    compiled: Callable[..., Any] = torch.compile(model, dynamic=True, backend=_compile_for_assumed_sizes)
    return compiled


def _compile_for_assumed_sizes(graph: torch.fx.GraphModule, inputs: Sequence[Any]) -> Any:
    from torch._inductor.compile_fx import compile_fx

    return compile_fx(graph, list(inputs), inner_compile=_generate_code)


def _generate_code(graph: torch.fx.GraphModule, inputs: Sequence[Any], **options: Any) -> Any:
    """Code for a traced graph. What was traced may hold for some sizes only, such as up to 24, and code is made for the
    nearest of these."""
    import sympy  # type: ignore[import-untyped]  # it has no types
    from torch._guards import detect_fake_mode
    from torch._inductor.compile_fx import compile_fx_inner

    mode = detect_fake_mode(inputs)
    sizes = None if mode is None else mode.shape_env
    if sizes is None:
        return compile_fx_inner(graph, inputs, **options)
    found = dict(sizes.backed_var_to_val)
    for size in found:
        limits = sizes.var_to_range[size]
        assumed = sympy.Integer(max(limits.lower, min(limits.upper, ASSUMED_SIZE)))
        sizes.backed_var_to_val[size] = assumed
        sizes.var_to_hint_override[size] = int(assumed)  # a part of the key of torch's cache of code
    try:
        return compile_fx_inner(graph, inputs, **options)
    finally:
        sizes.backed_var_to_val.update(found)


def compile_for_all_shapes(model: torch.nn.Module) -> None:
    """Let parts that the script compiles itself assume from the start that sizes vary."""
    dynamo = sys.modules.get("torch._dynamo")
    if dynamo is None:  # nothing is compiled
        return
    dynamo.config.assume_static_by_default = False
    for name, module in model.named_modules():
        context = getattr(module, "dynamo_ctx", None)
        if context is not None and getattr(context, "_dynamic", None) is False:
            _log.warning(
                f"{name or 'the model'} is compiled with dynamic=False: after a kill it is compiled for other sizes, "
                "and the run may end with other weights. Leave out dynamic"
            )
