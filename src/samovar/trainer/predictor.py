"""A net that predicts: rows in, predictions, labels and scores out. Knows no training."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from samovar.data import ArrayDataset, BatchMaker
from samovar.data.batches import check_dataset
from samovar.data.examples import as_tensor
from samovar.errors import BadInput
from samovar.nets import TablePreprocessor, TabularTask
from samovar.runner.step import frozen
from samovar.trainer.criteria import MixedCriterion
from samovar.trainer.frames import FrameInputs, is_frame, read_rows, take_target
from samovar.trainer.inputs import InputScales
from samovar.trainer.steps import DatasetStream, PositionalNet, predict_stream, to_numpy
from samovar.training.facade import check_count

_EXAMPLES_AHEAD = 64  # made at once by `predict_dataset`
_ROWS_AT_ONCE = 1024  # of a table: its members need eight times the memory


class Predictor(ABC):
    """What `PytorchTrainer` does with the net it has.

    Attributes:
        net: The net in memory.
        criterion: What turns outputs into predictions.
    """

    device: torch.device

    @property
    @abstractmethod
    def net(self) -> torch.nn.Module: ...

    def __init__(self) -> None:
        self._forget()

    def _forget(self) -> None:
        """Start without a net."""
        self._net: torch.nn.Module | None = None
        self._is_trained = False
        self.criterion: Any = None
        self._scales = InputScales()
        self._rows: FrameInputs | TablePreprocessor | None = None
        """What turns frames into inputs; None if the net is trained on arrays or a data set."""
        self._target_name: str | None = None

    def predict(self, *data: Any) -> NDArray[Any]:
        """Predict from arrays or a frame.

        Args:
            *data: The inputs of the net, each an array, tensor or frame with one row per example. A net that was
                trained on a frame takes one frame, with the columns in any order.

        Returns:
            One prediction per row. A net of your own builder gives the predictions of the criterion: numbers and
            probabilities. Without a builder they are what the target was: numbers, or classes.

        Raises:
            BadInput: The inputs have the wrong type or shape, or the trainer was neither trained nor loaded.

        Example:
            ```python
            import numpy as np
            import torch
            from samovar import PytorchTrainer

            x = np.random.randn(200, 3)
            trainer = PytorchTrainer(torch.nn.Linear, [3, 1]).fit(x, x.sum(1), n_epochs=2, verbose=False)
            print(trainer.predict(x[:5]))
            ```
        """
        predicted = self._predict_outputs(data)
        task = self.criterion
        if not isinstance(task, TabularTask) or task.classes is None:
            return predicted
        numbers = predicted.argmax(1) if task.kind == "multiclass" else (predicted > 0.5).astype(np.int64)
        return np.asarray(task.classes[numbers])

    def predict_proba(self, *data: Any) -> NDArray[Any]:
        """Predict the probabilities of classes.

        Args:
            *data: As for `predict`.

        Returns:
            [rows, classes], in the order of `classes_`.

        Raises:
            BadInput: The target was not one column of classes, or as for `predict`.

        Example:
            ```python
            import numpy as np
            from samovar import PytorchTrainer

            x = np.random.randn(200, 3)
            trainer = PytorchTrainer().fit(x, np.where(x[:, 0] > 0, "up", "down"), fast=True, n_epochs=2, verbose=False)
            print(trainer.classes_, trainer.predict_proba(x[:5]).shape)
            ```
        """
        if self._find_classes() is None:
            raise BadInput("predict_proba needs a net that was trained on one target of classes. Use predict")
        predicted = self._predict_outputs(data)
        flat = predicted.reshape(len(predicted), -1)
        return np.concatenate([1 - flat, flat], 1) if flat.shape[1] == 1 else flat

    def score(self, inputs: Any, targets: Any, weights: Any = None) -> float:
        """Measure how good predictions are, as scikit-learn's models do.

        Args:
            inputs: As for `fit`.
            targets: The true values, or the name of their column.
            weights: The weight of each row.

        Returns:
            The share of rows whose class is right, or for numbers the coefficient of determination R²; with several
            columns, their mean. Rows without a target are ignored.

        Raises:
            BadInput: As for `predict`, or the criterion is your own.

        Example:
            ```python
            import numpy as np
            import torch
            from samovar import PytorchTrainer

            x = np.random.randn(200, 3)
            trainer = PytorchTrainer(torch.nn.Linear, [3, 1]).fit(x, x.sum(1), n_epochs=5, verbose=False)
            print(trainer.score(x, x.sum(1)))
            ```
        """
        inputs, targets = take_target(inputs, targets)
        data = inputs if isinstance(inputs, list | tuple) else [inputs]
        weighing = None if weights is None else as_tensor(weights, "weights").double().numpy()
        predicted = self._predict_outputs(data)
        if isinstance(self.criterion, TabularTask):
            columns = [_score_task(self.criterion, predicted, targets, weighing)]
        elif isinstance(self.criterion, MixedCriterion):
            columns = _score_columns(
                self.criterion, predicted, as_tensor(targets, "targets").double().numpy(), weighing
            )
        else:
            raise BadInput(
                f"score cannot judge predictions of your own criterion {type(self.criterion).__name__}. Use predict "
                "and measure them yourself"
            )
        return float(np.mean(columns))

    def predict_dataset(
        self, dataset: Any, batch_size: int = 1, verbose: bool = True, n_workers: int = 0
    ) -> NDArray[Any]:
        """Predict all examples of a data set.

        Args:
            dataset: As for `train`; targets are not needed. A tuple of two is always (input, target).
            batch_size: Examples per minibatch. The net gets minibatches of exactly this size, because the last bits of
                its output may depend on it. A larger one is faster.
            verbose: Show a progress bar on a terminal, or in a notebook that has ipywidgets.
            n_workers: Processes that make minibatches; with 0, this one does. It does not change the result.

        Returns:
            The predictions in the order of the examples.

        Raises:
            BadInput: An argument is wrong, or the trainer was neither trained nor loaded.

        Example:
            ```python
            import numpy as np
            import torch
            from samovar import PytorchTrainer
            from samovar.data import ArrayDataset

            x = np.random.randn(200, 3)
            trainer = PytorchTrainer(torch.nn.Linear, [3, 1]).fit(x, x.sum(1), n_epochs=2, verbose=False)
            print(trainer.predict_dataset(ArrayDataset(x), batch_size=100).shape)
            ```
        """
        check_count("batch_size", batch_size)
        check_count("n_workers", n_workers, 0)
        check_dataset(dataset)
        return self._predict_examples(dataset, batch_size, verbose, n_workers)

    def _predict_examples(self, dataset: Any, batch_size: int, verbose: bool, n_workers: int) -> NDArray[Any]:
        maker = BatchMaker(dataset, 0)
        order = torch.arange(len(dataset))
        # The net gets minibatches of this size, because the bits of a matrix product depend on its size.
        num_ahead = max(1, _EXAMPLES_AHEAD // batch_size)
        stream = DatasetStream(maker, order, batch_size, 0, n_workers, self.device, num_ahead)
        return predict_stream(PositionalNet(self.net, self._scales), self._postproc(), stream, verbose)

    @property
    def classes_(self) -> NDArray[Any]:
        """The classes that the net predicts; absent if it predicts numbers."""
        classes = self._find_classes()
        if classes is None:
            raise AttributeError("classes_ is only for a net that was trained on one target of classes")
        return classes

    def _find_classes(self) -> NDArray[Any] | None:
        if isinstance(self.criterion, TabularTask):
            return self.criterion.classes
        if isinstance(self.criterion, MixedCriterion) and self.criterion.columns is not None:
            kinds = self.criterion.columns.kinds
            return np.arange(kinds[0] or 2) if len(kinds) == 1 and kinds[0] != 1 else None
        return None

    def _predict_outputs(self, data: Any) -> NDArray[Any]:
        """What the criterion makes of the outputs for some inputs."""
        postproc = self._postproc()
        inputs = [as_tensor(each, f"input {number}") for number, each in enumerate(self._encode(data))]
        if isinstance(self._rows, TablePreprocessor) and len(inputs[0]) > 0:
            return self._predict_examples(ArrayDataset(inputs), _ROWS_AT_ONCE, False, 0)
        named = {str(number): each.to(self.device) for number, each in enumerate(inputs)}
        with frozen(self.net, 0), torch.no_grad():
            return to_numpy(postproc(PositionalNet(self.net, self._scales)(named)))

    def _encode(self, data: Any) -> Any:
        """Rows of a frame, as the net takes them; arrays as they are."""
        if self._rows is None or (isinstance(self._rows, FrameInputs) and not any(map(_has_names, data))):
            return data
        if len(data) != 1:
            raise BadInput(f"the net was trained on one frame, got {len(data)} inputs")
        columns = read_rows(data[0])
        if self._target_name is not None:
            columns.pop(self._target_name, None)
        return self._rows.transform(columns)

    def _postproc(self) -> Callable[[Any], Any]:
        if self.criterion is None:
            raise BadInput("the trainer has no trained net yet: call train, fit or load first")
        postproc: Callable[[Any], Any] = self.criterion.postproc
        return postproc


def _has_names(rows: Any) -> bool:
    return is_frame(rows) or isinstance(rows, Mapping)


def _score_task(task: TabularTask, predicted: NDArray[Any], targets: Any, weights: NDArray[Any] | None) -> float:
    if task.classes is None:
        return _r_squared(predicted, task.encode(targets).double().numpy() * task.std + task.mean, weights)
    encoded = task.encode(targets).numpy()
    if task.kind == "multiclass":
        return _share(predicted.argmax(1) == encoded, encoded >= 0, weights)
    return _share((predicted > 0.5) == (encoded > 0.5), ~np.isnan(encoded), weights)


def _score_columns(
    criterion: MixedCriterion, predicted: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None
) -> list[float]:
    assert criterion.columns is not None
    outputs, wanted = predicted.reshape(len(predicted), -1), targets.reshape(len(targets), -1)
    kinds = criterion.columns.kinds
    if wanted.shape[1] != len(kinds):
        raise BadInput(f"targets must have {len(kinds)} columns, got the shape {list(targets.shape)}")
    scores, first = [], 0
    for kind, values in zip(kinds, wanted.T, strict=True):
        width = 1 if kind < 3 else outputs.shape[1] if len(kinds) == 1 else kind
        part, is_known = outputs[:, first : first + width], ~np.isnan(values)
        if kind == 1:
            scores.append(_r_squared(part[:, 0], values, weights))
        else:
            found = part.argmax(1) if width > 1 else part[:, 0] > 0.5
            scores.append(_share(found == values, is_known, weights))
        first += width
    return scores


def _share(is_right: NDArray[Any], is_known: NDArray[Any], weights: NDArray[Any] | None) -> float:
    return float(np.average(is_right[is_known], weights=None if weights is None else weights[is_known]))


def _r_squared(predicted: NDArray[Any], targets: NDArray[Any], weights: NDArray[Any] | None) -> float:
    is_known = ~np.isnan(targets)
    wanted, found = targets[is_known], predicted.reshape(-1)[is_known]
    known = None if weights is None else weights[is_known]
    spread = np.average((wanted - np.average(wanted, weights=known)) ** 2, weights=known)
    error = np.average((wanted - found) ** 2, weights=known)
    return float(1 - error / spread) if spread > 0 else float(error == 0)
