"""What a program may do: operators of torch that only compute, and arithmetic on sizes. Nothing else is ever called, so
a program from a stranger can compute wrong numbers and nothing more.

No operator here writes to its arguments, reads uninitialised memory, has a result whose size depends on values, or
reads outside a tensor.
"""

import math
import operator
from collections.abc import Callable, Mapping
from typing import Any, Final

import torch

_ATEN = """
_log_softmax.default _native_batch_norm_legit_no_training.default _safe_softmax.default _softmax.default
_to_copy.default _unsafe_view.default abs.default acos.default adaptive_avg_pool1d.default add.Scalar add.Tensor
addmm.default alias.default all.default all.dim all.dims amax.default amin.default aminmax.default any.default any.dim
any.dims arange.default arange.start arange.start_step argmax.default argmin.default argsort.default argsort.stable
asin.default atan.default atan2.default avg_pool1d.default baddbmm.default batch_norm.default bilinear.default
bitwise_and.Scalar bitwise_and.Tensor bitwise_not.default bitwise_or.Scalar bitwise_or.Tensor bitwise_xor.Scalar
bitwise_xor.Tensor bmm.default broadcast_tensors.default cat.default cdist.default ceil.default celu.default
chunk.default clamp.Tensor clamp.default clamp_max.Tensor clamp_max.default clamp_min.Tensor clamp_min.default
clone.default concat.default constant_pad_nd.default contiguous.default conv1d.default conv1d.padding conv2d.default
conv2d.padding cos.default cosh.default cosine_similarity.default cumprod.default cumsum.default detach.default
diagonal.default div.Scalar div.Scalar_mode div.Tensor div.Tensor_mode dot.default dropout.default einsum.default
elu.default embedding.default eq.Scalar eq.Tensor erf.default erfc.default exp.default exp2.default expand.default
expand_as.default expm1.default feature_dropout.default fill.Scalar fill.Tensor flatten.using_ints flip.default
floor.default floor_divide.Scalar floor_divide.default fmod.Scalar fmod.Tensor frac.default full.default
full_like.default gather.default ge.Scalar ge.Tensor gelu.default glu.default group_norm.default gru.input gt.Scalar
gt.Tensor hardshrink.default hardsigmoid.default hardswish.default hardtanh.default index.Tensor index_add.default
index_put.default index_select.default instance_norm.default isfinite.default isinf.default isnan.default
kthvalue.default layer_norm.default le.Scalar le.Tensor leaky_relu.default lerp.Scalar lerp.Tensor
lift_fresh_copy.default linalg_vector_norm.default linear.default log.default log10.default log1p.default log2.default
log_sigmoid.default log_softmax.int logaddexp.default logical_and.default logical_not.default logical_or.default
logical_xor.default logit.default logsumexp.default lstm.input lt.Scalar lt.Tensor masked_fill.Scalar
masked_fill.Tensor matmul.default max.default max.dim max_pool1d.default maximum.default mean.default mean.dim
median.default median.dim min.default min.dim minimum.default mish.default mm.default movedim.int mul.Scalar
mul.Tensor mv.default nan_to_num.default narrow.default native_layer_norm.default ne.Scalar ne.Tensor neg.default
new_full.default new_ones.default new_zeros.default norm.Scalar norm.ScalarOpt_dim one_hot.default ones.default
ones_like.default outer.default pad.default permute.default pow.Scalar pow.Tensor_Scalar pow.Tensor_Tensor
prelu.default prod.default prod.dim_int reciprocal.default relu.default relu6.default remainder.Scalar
remainder.Tensor repeat.default repeat_interleave.self_int reshape.default rms_norm.default rnn_relu.input
rnn_tanh.input roll.default round.decimals round.default rsqrt.default rsub.Scalar rsub.Tensor scalar_tensor.default
scaled_dot_product_attention.default scatter.src scatter.value scatter_add.default select.int select_scatter.default
selu.default sigmoid.default sign.default silu.default sin.default sinh.default slice.Tensor slice_scatter.default
softmax.int softplus.default softshrink.default sort.default sort.stable split.Tensor split_with_sizes.default
sqrt.default square.default squeeze.default squeeze.dim squeeze.dims stack.default std.correction std.dim sub.Scalar
sub.Tensor sum.default sum.dim_IntList sym_numel.default sym_size.int t.default take_along_dim.default tan.default
tanh.default threshold.default tile.default to.device to.dtype topk.default transpose.int
tril.default triu.default trunc.default unbind.int unflatten.int unfold.default unsqueeze.default
upsample_nearest1d.default var.correction var.dim var_mean.correction view.default view_as.default where.Scalar
where.ScalarOther where.ScalarSelf where.self xlogy.Tensor zeros.default zeros_like.default
"""
_SIZES: Final[Mapping[str, Callable[..., Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "floordiv": operator.floordiv,
    "mod": operator.mod,
    "neg": operator.neg,
    "truediv": operator.truediv,
    "getitem": operator.getitem,
    "max": max,
    "min": min,
    "float": float,
    "int": int,
    "ceil": math.ceil,
    "floor": math.floor,
}
MAX_SIZE: Final = 2**40
"""Of a number that sizes are computed with: larger ones are no sizes."""

ATEN: Final = frozenset(f"aten.{name}" for name in _ATEN.split())
SIZES: Final = frozenset(_SIZES)
WITHOUT_STRIDES: Final = {
    "aten.view.default": "aten.reshape.default",
    "aten._unsafe_view.default": "aten.reshape.default",
}
"""What stands for an operator where only shapes are computed: there, other kernels lay out some results otherwise."""
TYPES: Final = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.bool, torch.uint8, torch.int8,
                  torch.int16, torch.int32, torch.int64)
}  # fmt: skip
MEMORY_FORMATS: Final = {
    str(each).removeprefix("torch."): each for each in (torch.contiguous_format, torch.preserve_format)
}


def find(name: str) -> Callable[..., Any] | None:
    """The operator of a name; None if a program may not use it."""
    if name in _SIZES:
        return _checked(_SIZES[name])
    if name not in ATEN:
        return None
    _, operation, overload = name.split(".")
    packet = getattr(torch.ops.aten, operation, None)
    found: Callable[..., Any] | None = getattr(packet, overload, None)
    return found


def _checked(compute: Callable[..., Any]) -> Callable[..., Any]:
    """Arithmetic whose results stay small: sizes that are multiplied again and again would fill the memory."""

    def call(*arguments: Any) -> Any:
        found = compute(*arguments)
        if isinstance(found, int | float) and not -MAX_SIZE <= found <= MAX_SIZE:
            raise ValueError(f"a size of {found:.3g}")
        return found

    return call


def find_side_effect(name: str, arguments: Mapping[str, Any]) -> str | None:
    """Why an operator of the list may not be called with these arguments, by their names in its schema."""
    if arguments.get("training") or arguments.get("train"):
        return "it computes as in training"
    if name == "aten.instance_norm.default" and arguments.get("running_mean") is not None:
        return "it changes its running statistics"
    return None
