"""scikit-learn on the rows of tensor tables: gradient boosting and a linear model, on the columns that Samovar gets.

| a column of          | is for gradient boosting                       | for the linear model     |
|----------------------|------------------------------------------------|--------------------------|
| numbers              | itself                                         | standardised             |
| ids, 254 or fewer    | categories                                     | a weight per id          |
| more ids             | `TargetEncoder`: their mean target, smoothed   | a weight per id          |
| words                | `TruncatedSVD`: 30 numbers                     | a weight per word        |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.decomposition import TruncatedSVD
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import KFold
from sklearn.preprocessing import StandardScaler, TargetEncoder

import samovar

Floats = NDArray[np.float64]
MOST_CATEGORIES = 254
FEWEST_ROWS = 3
"""An id that fewer rows have is none."""
NUM_COMPONENTS = 30


@dataclass(frozen=True)
class Rows:
    """Columns of a table, in its order."""

    numbers: Floats
    """[rows, numbers]."""
    ids: dict[str, sparse.csr_array]
    """Each [rows, ids that occur]; how often a row has an id."""
    target: Floats
    periods: NDArray[np.int64]
    """The number of the hour, day or week of each row; all 0 without times."""

    def take(self, rows: slice | NDArray[Any]) -> "Rows":
        ids = {name: counts[rows] for name, counts in self.ids.items()}
        return Rows(self.numbers[rows], ids, self.target[rows], self.periods[rows])


def read_rows(tables: Sequence[samovar.tables.Table], features: Sequence[str], target: str) -> list[Rows]:
    """The rows of some tables, with the same columns of ids."""
    values: dict[str, list[Any]] = {name: [] for name in [*features, target]}
    periods, ends = [], []
    for table in tables:
        starts = np.array([minibatches.start for minibatches in table.hours.values()])
        for record in table.read([*features, target]):
            for name, parts in values.items():
                parts.append(record[name])
            periods.append(np.full(len(record[target]), np.searchsorted(starts, record.number, "right") - 1))
        ends.append(sum(map(len, periods)))
    numbers = [np.concatenate(values[name]) for name in features if not _is_bag(values[name])]
    columns = [each.reshape(len(each), -1) for each in numbers] or [np.zeros((ends[-1], 0))]
    ids = {name: _count_ids(values[name]) for name in features if _is_bag(values[name])}
    wanted = np.concatenate(values[target]).astype(np.float64)
    rows = Rows(np.concatenate(columns, 1).astype(np.float64), ids, wanted, np.concatenate(periods))
    return [rows.take(slice(start, end)) for start, end in zip([0, *ends], ends, strict=False)]


def _is_bag(parts: list[Any]) -> bool:
    return isinstance(parts[0], samovar.Bag)


def _count_ids(parts: list[samovar.Bag]) -> sparse.csr_array:
    data = np.concatenate([part.data for part in parts])
    lengths = np.concatenate([part.data_len for part in parts])
    known, codes = np.unique(data, return_inverse=True)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    counts = sparse.csr_array((np.ones(len(data)), codes, offsets), (len(lengths), max(1, len(known))))
    counts.sum_duplicates()
    return counts


# What a column becomes for gradient boosting


class _Categories:
    def fit(self, counts: sparse.csr_array, target: Floats) -> Floats:
        codes = _codes(counts)
        self._known = np.unique(codes[~np.isnan(codes)])
        return self.transform(counts)

    def transform(self, counts: sparse.csr_array) -> Floats:
        """Places among the ids that `fit` has seen; NaN is none of them."""
        codes = _codes(counts)
        places = np.searchsorted(self._known, codes).clip(max=len(self._known) - 1)
        return np.where(self._known[places] == codes, places, np.nan)[:, None]


class _MeanTargets:
    def __init__(self, task: "Task") -> None:
        kinds = {"yes_or_no": "binary", "classes": "multiclass", "number": "continuous"}
        self._encoder = TargetEncoder(target_type=kinds[task], cv=KFold(5, shuffle=True, random_state=0))

    def fit(self, counts: sparse.csr_array, target: Floats) -> Floats:
        return np.asarray(self._encoder.fit_transform(self._column(counts), target))

    def transform(self, counts: sparse.csr_array) -> Floats:
        return np.asarray(self._encoder.transform(self._column(counts)))

    def _column(self, counts: sparse.csr_array) -> Floats:
        return np.nan_to_num(_codes(counts), nan=-1.0)[:, None]


class _Components:
    def fit(self, counts: sparse.csr_array, target: Floats) -> Floats:
        self._is_kept = _is_frequent(counts)
        self._model = TruncatedSVD(min(NUM_COMPONENTS, int(self._is_kept.sum())), random_state=0)
        return np.asarray(self._model.fit_transform(counts[:, self._is_kept]))

    def transform(self, counts: sparse.csr_array) -> Floats:
        return np.asarray(self._model.transform(counts[:, self._is_kept]))


def _codes(counts: sparse.csr_array) -> Floats:
    """The id of each row, as its number; NaN if there is none."""
    codes = np.full(counts.shape[0], np.nan)
    codes[np.diff(counts.indptr) > 0] = counts.indices
    return codes


def _is_frequent(counts: sparse.csr_array) -> NDArray[np.bool_]:
    frequent: NDArray[np.bool_] = np.bincount(counts.indices, minlength=counts.shape[1]) >= FEWEST_ROWS
    return frequent


def _choose(counts: sparse.csr_array, task: "Task") -> Any:
    if np.diff(counts.indptr).max() > 1:
        return _Components()
    return _Categories() if len(np.unique(counts.indices)) <= MOST_CATEGORIES else _MeanTargets(task)


# Models

Task = Literal["yes_or_no", "classes", "number"]


class Boosting:
    """`HistGradientBoosting`, stopped when it gets no better on `valid`, or else on a tenth of the rows."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def fit(self, rows: Rows, valid: Rows | None = None) -> None:
        self._columns = {name: _choose(counts, self._task) for name, counts in rows.ids.items()}
        parts = [each.fit(rows.ids[name], rows.target) for name, each in self._columns.items()]
        is_category = [False] * rows.numbers.shape[1]
        for part, column in zip(parts, self._columns.values(), strict=True):
            is_category += [isinstance(column, _Categories)] * part.shape[1]
        kind = HistGradientBoostingRegressor if self._task == "number" else HistGradientBoostingClassifier
        self._model = kind(max_iter=1000, early_stopping=True, random_state=0, categorical_features=is_category)
        held_out = {} if valid is None else {"X_val": self._transform(valid), "y_val": valid.target}
        self._model.fit(np.concatenate([rows.numbers, *parts], 1), rows.target, **held_out)

    def predict(self, rows: Rows) -> Floats:
        return _predict(self._model, self._task, self._transform(rows))

    def _transform(self, rows: Rows) -> Floats:
        parts = [each.transform(rows.ids[name]) for name, each in self._columns.items()]
        return np.concatenate([rows.numbers, *parts], 1)


class Linear:
    """Logistic regression, or ridge regression of numbers."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def fit(self, rows: Rows, valid: Rows | None = None) -> None:
        self._scaler = StandardScaler().fit(rows.numbers) if rows.numbers.shape[1] else None
        self._kept = {name: _is_frequent(counts) for name, counts in rows.ids.items()}
        self._model = Ridge(10.0, solver="lsqr") if self._task == "number" else LogisticRegression(C=0.3, max_iter=500)
        self._model.fit(self._transform(rows), rows.target)

    def predict(self, rows: Rows) -> Floats:
        return _predict(self._model, self._task, self._transform(rows))

    def _transform(self, rows: Rows) -> sparse.csr_array:
        parts = [sparse.csr_array(self._scaler.transform(rows.numbers))] if self._scaler else []
        parts += [rows.ids[name][:, is_kept] for name, is_kept in self._kept.items()]
        return sparse.csr_array(sparse.hstack(parts, "csr"))


class Constant:
    """The mean target, or the share of each class."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def fit(self, rows: Rows, valid: Rows | None = None) -> None:
        self._value = rows.target.mean()
        if self._task == "classes":
            self._value = np.bincount(rows.target.astype(int)) / len(rows.target)

    def predict(self, rows: Rows) -> Floats:
        return np.repeat(np.asarray(self._value)[None], len(rows.target), 0)


def _predict(model: Any, task: Task, inputs: Any) -> Floats:
    """Numbers, the probability of yes, or a column of probabilities for every class from 0 on."""
    if task == "number":
        return np.asarray(model.predict(inputs), np.float64)
    chances = np.asarray(model.predict_proba(inputs), np.float64)
    if task == "yes_or_no":
        return chances[:, 1]
    found = np.zeros((len(chances), int(model.classes_.max()) + 1))
    found[:, model.classes_.astype(int)] = chances
    return found


class Peer(Protocol):
    def fit(self, rows: Rows, valid: Rows | None = None) -> None: ...
    def predict(self, rows: Rows) -> Floats: ...


PEERS: Mapping[str, Callable[[Task], Peer]] = {
    "HistGradientBoosting": Boosting,
    "linear": Linear,
    "constant": Constant,
}
