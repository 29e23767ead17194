"""A traced model as ONNX, for other runtimes: the dense part, with pooled embeddings as inputs. Its scores agree to
1e-6, not to the bit.
"""

import importlib.util
import warnings

import torch

from samovar.errors import BadInput
from samovar.training.tracing import Traced

_PACKAGES = ("onnx", "onnxscript")


def require_onnx() -> None:
    """Refuse early if the packages that write ONNX are not installed."""
    missing = [name for name in _PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise BadInput(f"ONNX needs the package {missing[0]}: pip install 'samovar[onnx]'")


def to_onnx(traced: Traced) -> bytes:
    """The bytes of an ONNX file, with weights inside.

    Args:
        traced: A model that `trace` followed.

    Raises:
        BadInput: A package is missing.
    """
    require_onnx()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        program = torch.onnx.export(traced.exported, tuple(traced.example), dynamo=True, verbose=False)
        assert program is not None
    return bytes(program.model_proto.SerializeToString())
