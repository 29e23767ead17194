"""What a model puts out for minibatches, as columns, and how good it is by the targets. Knows no files and no loop."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from numpy.typing import NDArray

from samovar.errors import BadInput
from samovar.scoring.measuring import Measurement, Measuring
from samovar.scoring.quality import PREDICTION
from samovar.tables.export import rows_of_column
from samovar.tables.record import MinibatchRecord, RecordValue
from samovar.tables.schema import GROUP_START, ColumnSchema, parse_type


class MeasuredOutputs:
    """Measures predictions minibatch by minibatch.

    Args:
        name: Of the evaluation, for messages.
        columns: The schemas of its keys, for own metrics.
        how: Task, weights and own metrics.

    Example:
        >>> record = MinibatchRecord({}, {"click": torch.tensor([1.0, 0.0])}, {}, num_examples=2)
        >>> measured = MeasuredOutputs("test", {}, Measuring())
        >>> measured.add(record, prediction=torch.tensor([0.75, 0.5]))
        >>> measured.lines()[0]["auc"]
        1.0
    """

    def __init__(self, name: str, columns: Mapping[str, ColumnSchema], how: Measuring) -> None:
        self._name = name
        self._columns = columns
        self._how = how
        self._num_examples = 0
        self._measured: dict[tuple[str, str], Measurement] = {}
        """By output and target."""
        self._kept: list[tuple[Any, dict[str, Any], dict[str, Any]]] = []
        """For own metrics: the outputs, targets and keys of each minibatch."""

    def add(self, record: MinibatchRecord, prediction: Any) -> None:
        """Add the examples of one minibatch.

        Raises:
            BadInput: The prediction has another shape or does not fit the task.
        """
        self._num_examples += record.num_examples
        self._measure(record, output_columns(prediction, record.num_examples))
        if self._how.own:
            self._keep(record, prediction)

    def _measure(self, record: MinibatchRecord, outputs: Mapping[str, NDArray[Any]]) -> None:
        """Measure outputs by the targets that are one number per example. They are paired in order if there are equally
        many; otherwise every output belongs to the first target. Outputs [B, K] are measured if there is no other."""
        numbers = [(name, array) for name, array in outputs.items() if array.ndim == 1] or list(outputs.items())
        columns = {
            name: value.reshape(-1).numpy()
            for name, value in record.targets.items()
            if isinstance(value, torch.Tensor) and value.numel() == record.num_examples
        }
        starts = columns.pop(GROUP_START, None)
        weights = self._weights(record)
        targets = [(name, values) for name, values in columns.items() if name != self._how.weights]
        if len(targets) != len(numbers):
            targets = targets[:1] * len(numbers)
        for (output, array), (target, truth) in zip(numbers, targets, strict=False):  # there may be no target
            if (output, target) not in self._measured:
                self._measured[output, target] = Measurement(self._how, self._name)
            # A view would keep the whole minibatch in memory.
            rows = [None if each is None else each.copy() for each in (weights, starts)]
            self._measured[output, target].add(truth.copy(), array.copy(), *rows)

    def _weights(self, record: MinibatchRecord) -> NDArray[Any] | None:
        name = self._how.weights
        if name is None:
            return None
        found = record.targets.get(name, record.keys.get(name))
        if isinstance(found, pa.Array):
            found = torch.from_numpy(found.to_numpy(zero_copy_only=False))
        if not isinstance(found, torch.Tensor) or found.numel() != record.num_examples:
            raise BadInput(f"{self._name}: weights {name!r} must be one number per example")
        return np.asarray(found.reshape(-1).numpy())

    def _keep(self, record: MinibatchRecord, prediction: Any) -> None:
        outputs = {name: array.copy() for name, array in output_columns(prediction, record.num_examples).items()}
        targets = {name: value.clone() for name, value in record.targets.items() if isinstance(value, torch.Tensor)}
        keys = {name: key_column(self._columns[name], value) for name, value in record.keys.items()}
        self._kept.append(
            (
                outputs if isinstance(prediction, Mapping) else outputs[PREDICTION],
                {name: value.numpy() for name, value in targets.items()},
                {name: np.asarray(value.to_numpy(zero_copy_only=False)) for name, value in keys.items()},
            )
        )

    def lines(self) -> list[dict[str, Any]]:
        """How good the predictions are, one dict per output; without targets, only the number of examples."""
        found = [
            {
                **({} if output == PREDICTION else {"output": output}),
                "target": target,
                **({} if self._how.weights is None else {"weights": self._how.weights}),
                **({} if self._how.k is None else {"k": self._how.k}),
                **measurement.result(),
            }
            for (output, target), measurement in self._measured.items()
        ]
        found = [each for each in found if "task" in each] or [{"num_examples": self._num_examples}]
        return [{**found[0], **self._own_metrics()}, *found[1:]]

    def _own_metrics(self) -> dict[str, float | None]:
        if not self._kept:
            return dict.fromkeys(self._how.own)
        rows = [_join(column) for column in zip(*self._kept, strict=True)]
        return {name: _as_metric(name, function(*rows)) for name, function in self._how.own.items()}


def _join(parts: Sequence[Any]) -> Any:
    """Arrays, or dicts of arrays, of all minibatches as one."""
    if not isinstance(parts[0], dict):
        return np.concatenate(parts)
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}


def _as_metric(name: str, value: Any) -> float | None:
    try:
        number = None if value is None else float(value)
    except (TypeError, ValueError):
        raise BadInput(f"the metric {name!r} of the script must return a number, got {type(value).__name__}") from None
    return number if number is not None and np.isfinite(number) else None


def key_column(column: ColumnSchema, value: RecordValue) -> pa.Array:
    """A key in the type that it was brewed from."""
    kind = parse_type(column.source_type)
    if isinstance(value, pa.Array):
        return value.cast(kind)
    ids = rows_of_column(column, value, pa.uint64())
    return ids.view(pa.int64()).cast(kind) if pa.types.is_signed_integer(kind) else ids.cast(kind)


def output_columns(prediction: Any, num_examples: int) -> dict[str, NDArray[Any]]:
    """The outputs of a model by name, each [B] or [B, K].

    Raises:
        BadInput: One has another shape.
    """
    named = prediction if isinstance(prediction, Mapping) else {PREDICTION: prediction}
    columns = {}
    for name, value in named.items():
        array = as_numpy(value)
        if array.ndim not in (1, 2) or len(array) != num_examples:
            raise BadInput(
                f"predict: {name!r} must have the shape [{num_examples}] or [{num_examples}, K], got "
                f"{list(array.shape)}"
            )
        columns[str(name)] = array
    return columns


def as_numpy(value: Any) -> NDArray[Any]:
    """An output of a model as an array."""
    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    tensor = value.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()  # numpy has no bfloat16
