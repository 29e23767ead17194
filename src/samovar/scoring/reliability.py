"""Whether predictions mean what they say: of the rows that a model gave about 0.3, how many were positive. Reads the
predictions of a result; draws nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from samovar.config.records import as_corrupt
from samovar.errors import BadInput
from samovar.results import ResultDirectory
from samovar.scoring.quality import PREDICTION, as_array, columns_of, paths_of, read_evaluation_lines

NUM_BINS = 20


@dataclass(frozen=True)
class Bin:
    """Rows with similar predictions.

    Attributes:
        low: The least prediction of the bin.
        high: The greatest.
        num_examples: How many rows there are.
        mean_prediction: What the model said.
        mean_target: What was true.
    """

    low: float
    high: float
    num_examples: int
    mean_prediction: float
    mean_target: float


def bin_predictions(targets: NDArray[Any], predictions: NDArray[Any], num_bins: int = NUM_BINS) -> list[Bin]:
    """Cut rows into bins of about the same number of rows, by their predictions.

    Args:
        targets: What was true, [N].
        predictions: What the model said, [N].
        num_bins: The most bins; equal predictions are never cut apart.

    Raises:
        BadInput: The two are not of the same length.

    Example:
        >>> bins = bin_predictions(np.array([0, 1, 1]), np.array([0.1, 0.5, 0.5]), 2)
        >>> [(each.num_examples, each.mean_target) for each in bins]
        [(1, 0.0), (2, 1.0)]
    """
    if targets.shape != predictions.shape or targets.ndim != 1:
        raise BadInput(f"targets and predictions must be [N], got {list(targets.shape)} and {list(predictions.shape)}")
    is_good = np.isfinite(targets) & np.isfinite(predictions)
    targets, predictions = targets[is_good], predictions[is_good]
    if not len(targets):
        return []
    order = np.argsort(predictions, kind="stable")
    targets, predictions = targets[order], predictions[order]
    wanted = np.linspace(0, len(targets), num_bins + 1).astype(np.int64)[1:-1]
    starts = np.unique([0, *np.searchsorted(predictions, predictions[wanted[wanted < len(targets)]], side="left")])
    found = []
    for start, stop in zip(starts, [*starts[1:], len(targets)], strict=True):
        part = predictions[start:stop]
        found.append(
            Bin(float(part[0]), float(part[-1]), len(part), float(part.mean()), float(targets[start:stop].mean()))
        )
    return found


@dataclass(frozen=True)
class Reliability:
    """Whether the predictions of a result mean what they say: what `read_reliability` returns.

    Attributes:
        bins: By the name of the evaluation, with its lag and output if it has them.
        is_cut: Whether only the newest files were read.
    """

    bins: Mapping[str, Sequence[Bin]]
    is_cut: bool


def read_reliability(directory: ResultDirectory, num_bins: int = NUM_BINS, max_bytes: int | None = None) -> Reliability:
    """Bin the predictions of each evaluation that has one number per row and a target, over all of its hours.

    Args:
        directory: A model, finished or not, or predictions.
        num_bins: The most bins for each.
        max_bytes: Read only the newest files, of about this size together; None: all of them.

    Raises:
        CorruptData: A file of predictions cannot be read.
    """
    left, is_cut = max_bytes, False
    parts: dict[str, list[tuple[NDArray[Any], NDArray[Any]]]] = {}
    seen: set[tuple[str, str]] = set()
    for line in reversed(read_evaluation_lines(directory)):
        path = next((each for each in paths_of(line) if directory.store.size(each) is not None), None)
        output = line.get("output", PREDICTION)
        if "target" not in line or path is None or (path, output) in seen:
            continue
        seen.add((path, output))
        if left is not None:
            is_cut = is_cut or left <= 0
            left -= directory.store.size(path) or 0
        if is_cut:
            continue
        with as_corrupt(f"{directory.name}/{path}"):
            file = pq.ParquetFile(pa.BufferReader(directory.store.read(path)))
            part = {name: as_array(each) for name, each in columns_of(file, [line["target"], output]).items()}
        if part[output].ndim == 1:
            lag = f" +{line.get('lag', str(line['shift']) + 'h')}" if line.get("shift") is not None else ""
            name = f"{line['name']}{lag}{'' if 'output' not in line else ' ' + output}"
            parts.setdefault(name, []).append((part[line["target"]], part[output]))
    bins = {
        name: bin_predictions(
            np.concatenate([targets for targets, _ in each]), np.concatenate([found for _, found in each]), num_bins
        )
        for name, each in sorted(parts.items())
    }
    return Reliability(bins, is_cut)
