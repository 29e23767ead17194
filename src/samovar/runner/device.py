"""Where a model computes, and how minibatches get there. Hash tables and their bags stay on the CPU.

    minibatch ─ real columns, targets ──▶ device          bags ─ hash tables ─ pooled rows ──▶ device
    gradients of pooled rows ──▶ hash tables              predictions ──▶ CPU

Written for CUDA, and not tested on one.
"""

import os
from collections.abc import Mapping
from typing import Any

import torch

from samovar.errors import BadInput
from samovar.runner.learner import Learner
from samovar.tables.record import MinibatchRecord, RecordValue

CPU = torch.device("cpu")


def choose_device(device: str | torch.device) -> torch.device:
    """'auto' is CUDA if there is one. Asking for a device that is absent is an error."""
    if device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        chosen = torch.device(device)
    except RuntimeError as error:
        raise BadInput(f"device must be 'auto', 'cpu', 'cuda' or like 'cuda:1', got {device!r}: {error}") from error
    num_devices = torch.cuda.device_count()
    if chosen.type == "cuda" and (not torch.cuda.is_available() or (chosen.index or 0) >= num_devices):
        raise BadInput(
            f"device {device} is not available: torch sees {num_devices} CUDA devices. Use device='auto', or install "
            "torch with CUDA"
        )
    return chosen


def place_learner(learner: Learner, device: torch.device) -> None:
    """Move the model, and a loss that is a module, to a device, before optimizers have a state. On CUDA, torch may then
    only use algorithms that repeat their bits."""
    if device == CPU:
        return
    if device.type == "cuda":
        os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS repeats its bits only with this
        torch.use_deterministic_algorithms(True)
        torch.backends.cudnn.benchmark = False
    modules = [each for each in (learner.model, learner.loss) if isinstance(each, torch.nn.Module)]
    before = [parameter for module in modules for parameter in module.parameters()]
    for module in modules:
        module.to(device)
    after = [parameter for module in modules for parameter in module.parameters()]
    # On CUDA they are the same objects; on some devices torch makes new ones.
    moved = {id(old): new for old, new in zip(before, after, strict=True)}
    for optimizer in learner.named_optimizers.values():
        for group in optimizer.param_groups:
            group["params"] = [moved.get(id(parameter), parameter) for parameter in group["params"]]


def device_of(model: torch.nn.Module) -> torch.device:
    """Where the parameters of the dense part are; the CPU if there are none."""
    return next((parameter.device for parameter in model.parameters()), CPU)


def to_device(record: MinibatchRecord, device: torch.device) -> MinibatchRecord:
    """The minibatch with its real columns and targets on the device."""
    if device == CPU:
        return record
    return MinibatchRecord(
        _send_all(record.inputs, device),
        _send_all(record.targets, device),
        record.keys,
        record.num_examples,
        record.number,
        record.hour,
        record.num_replayed,
    )


def _send_all(values: Mapping[str, RecordValue], device: torch.device) -> dict[str, RecordValue]:
    return {name: _send(value, device) if isinstance(value, torch.Tensor) else value for name, value in values.items()}


def _send(value: torch.Tensor, device: torch.device) -> torch.Tensor:
    if value.device == device:
        return value
    pinned = value.pin_memory() if device.type == "cuda" and value.is_cpu else value  # else the copy would wait
    return pinned.to(device, non_blocking=True)


def to_cpu(prediction: Any) -> Any:
    """A prediction, or a dict of them, on the CPU."""
    if isinstance(prediction, torch.Tensor):
        return prediction.cpu()
    if isinstance(prediction, dict):
        return {name: to_cpu(each) for name, each in prediction.items()}
    return prediction
