"""Who learns the streams: Samovar, Vowpal Wabbit, river, LightGBM trained again and again, and the base rate.

Samovar trains and predicts through its own pipeline, hour by hour; the others take the same steps in `progress`. Each
library is imported by its own contestant, in a process of its own.
"""

import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from benchmarks.learning.contest import Contestant, Field, Predicted
from benchmarks.learning.outcome import Array
from benchmarks.learning.stream_data import STREAMS, Places, StreamTask
from numpy.typing import NDArray

START = 1_356_998_400  # 2013-01-01T00:00 UTC: blocks are hours from here on
SCRIPT = Path(__file__).with_name("stream_model.py")
NUM_SEEDS = 3
BATCH_SIZE = 32
"""What `samovar.nets.stream_learner` asks for."""
LARGEST = 10.0
"""Scaled numbers are limited to this, as Samovar does."""
NUM_TRAININGS = 40
SAMOVAR, TUNED, VW, RIVER, LIGHTGBM = (
    "Samovar",
    "Samovar, best of five",
    "Vowpal Wabbit, best of six",
    "river",
    "LightGBM",
)
BASE_RATE = "base rate"


# Samovar


def learn_with_samovar(task: StreamTask, seed: int, batch_size: int = BATCH_SIZE,
                       replay: Mapping[str, Any] | None = None, **model: Any) -> Predicted:  # fmt: skip
    """One table by the time of the outcome to learn from, and one by the time of the row to predict."""
    import samovar

    columns: dict[str, Any] = dict.fromkeys(task.ids, "hash")
    columns |= {name: {"number": {"scale": "running"}} for name in task.numbers}
    columns |= {"target": "number", "row": "key"}
    frame = task.rows.assign(target=task.target, row=np.arange(len(task.rows)))
    config: dict[str, Any] = {} if replay is None else {"replay": replay}
    with tempfile.TemporaryDirectory(prefix="samovar-learning-") as folder:
        for name, blocks in (("known", task.known), ("rows", task.blocks)):
            timed = frame.assign(time=START + 3600 * blocks)
            samovar.brew(timed, f"{folder}/{name}", time="time", columns=columns, batch_size=batch_size, progress=False)
        run = samovar.train(
            SCRIPT,
            f"{folder}/known",
            targets=["target"],
            evaluate={"ahead": {"table": f"{folder}/rows", "keys": ["row"], "shifts": [1]}},
            model={"ids": task.ids, "numbers": task.numbers, **model},
            model_dir=f"{folder}/model",
            seed=seed,
            num_threads=1,
            **config,
        )
        found = run.predictions()
    predicted = np.full(len(task.rows), np.nan)
    predicted[found["row"].to_numpy()] = found["prediction"].to_numpy()
    if np.isnan(predicted[task.is_scored]).any():
        raise ValueError(f"{task.name}: {np.isnan(predicted[task.is_scored]).sum()} rows have no prediction")
    return predicted


_REPLAY = {"rows": 4, "window": "7d"}
TUNED_SETTINGS: dict[str, dict[str, Any]] = {
    "half the rates": {"rates": {"lr": 0.025, "emb_lr": 0.075}},
    "twice the rates": {"rates": {"lr": 0.1, "emb_lr": 0.3}},
    "minibatches of 16": {"batch_size": 16},
    "one hidden layer of 128": {"net": {"hidden": [128]}},
    "replay of 4 rows": {"replay": _REPLAY},
}


# Everyone else


class Learner(Protocol):
    def learn(self, places: Places) -> None: ...
    def predict(self, places: Places) -> Array: ...


def progress(make: Callable[[StreamTask], Learner], task: StreamTask, seed: int = 0) -> Predicted:
    """Block by block: learn what is known by now, then predict the rows of the block."""
    learner = make(task)
    predicted = np.full(len(task.rows), np.nan)
    for known, rows in task.steps():
        if len(known):
            learner.learn(known)
        if len(rows):
            predicted[rows] = learner.predict(rows)
    return predicted


class RunningScale:
    """Numbers as deviations from the mean of all rows learned so far; a block is counted before it is scaled."""

    def __init__(self, task: StreamTask) -> None:
        self._numbers = task.rows[task.numbers].to_numpy(np.float64)
        self._count, self._sum, self._squares = 0, np.zeros(len(task.numbers)), np.zeros(len(task.numbers))

    def count(self, places: Places) -> None:
        numbers = self._numbers[places]
        self._count += len(numbers)
        self._sum += numbers.sum(0)
        self._squares += (numbers**2).sum(0)

    def scale(self, places: Places) -> Array:
        count = max(self._count, 1)
        mean = self._sum / count
        deviation = np.sqrt(np.maximum(self._squares / count - mean**2, 1e-12))
        scaled: Array = np.clip((self._numbers[places] - mean) / deviation, -LARGEST, LARGEST)
        return scaled


class BaseRate:
    """The share of yes so far."""

    def __init__(self, task: StreamTask) -> None:
        self._target, self._yes, self._count = task.target, 1, 2

    def learn(self, places: Places) -> None:
        self._yes += int(self._target[places].sum())
        self._count += len(places)

    def predict(self, places: Places) -> Array:
        return np.full(len(places), self._yes / self._count)


class VowpalWabbit:
    """A namespace per id column, and one for all numbers, which come scaled because that helps it."""

    def __init__(self, task: StreamTask, options: str) -> None:
        from vowpalwabbit import Workspace

        self._workspace: Any = Workspace(f"--loss_function logistic --link logistic -b 22 --quiet {options}")
        self._target, self._scale = task.target, RunningScale(task)
        spaces = [chr(ord("a") + number) for number in range(len(task.ids))]
        columns = [task.rows[name].str.replace(r"[\s|:]", "_", regex=True) for name in task.ids]
        words = [[f"|{space} {value}" for value in column] for space, column in zip(spaces, columns, strict=True)]
        self._ids = [" ".join(row) for row in zip(*words, strict=True)] if words else [""] * len(task.rows)

    def learn(self, places: Places) -> None:
        self._scale.count(places)
        for place, line in zip(places, self._lines(places), strict=True):
            self._workspace.learn(f"{1 if self._target[place] else -1} {line}")

    def predict(self, places: Places) -> Array:
        return np.array([self._workspace.predict(line) for line in self._lines(places)])

    def _lines(self, places: Places) -> list[str]:
        scaled = self._scale.scale(places)
        return [
            f"{self._ids[place]} |z {' '.join(f'{column}:{value:.5g}' for column, value in enumerate(row))}"
            for place, row in zip(places, scaled, strict=True)
        ]


VW_SETTINGS = {
    "linear": "",
    "linear, --coin": "--coin",
    "linear, --ftrl": "--ftrl",
    "--nn 16, -l 0.1": "--nn 16 -l 0.1",
    "pairs, -l 0.1": "-q :: -l 0.1",
    "pairs, --coin": "-q :: --coin",
}


class RiverLinear:
    """Logistic regression over sparse ids and scaled numbers."""

    def __init__(self, task: StreamTask) -> None:
        from river.linear_model import LogisticRegression

        self._model: Any = LogisticRegression()
        self._target, self._scale, self._task = task.target, RunningScale(task), task
        ids = [[f"{name}={value}" for value in task.rows[name]] for name in task.ids]
        self._ids = [dict.fromkeys(row, 1.0) for row in zip(*ids, strict=True)] if ids else [{}] * len(task.rows)

    def learn(self, places: Places) -> None:
        self._scale.count(places)
        for place, row in zip(places, self._rows(places), strict=True):
            self._model.learn_one(row, bool(self._target[place]))

    def predict(self, places: Places) -> Array:
        return np.array([self._model.predict_proba_one(row)[True] for row in self._rows(places)])

    def _rows(self, places: Places) -> list[dict[str, float]]:
        scaled = self._scale.scale(places)
        return [
            self._ids[place] | dict(zip(self._task.numbers, row, strict=True))
            for place, row in zip(places, scaled.tolist(), strict=True)
        ]


class RiverTrees:
    """A tree or forest of river over the columns as they are."""

    def __init__(self, task: StreamTask, make: Callable[[], Any]) -> None:
        self._model, self._target = make(), task.target
        self._rows = task.rows.to_dict("records")

    def learn(self, places: Places) -> None:
        for place in places:
            self._model.learn_one(self._rows[place], bool(self._target[place]))

    def predict(self, places: Places) -> Array:
        chances = [self._model.predict_proba_one(self._rows[place]) for place in places]
        return np.array([chance.get(True, 0.0) if chance else 0.5 for chance in chances])


def make_hoeffding_tree(task: StreamTask) -> RiverTrees:
    from river.tree import HoeffdingAdaptiveTreeClassifier

    return RiverTrees(task, lambda: HoeffdingAdaptiveTreeClassifier(seed=0))


def make_forest(task: StreamTask) -> RiverTrees:
    from river.forest import ARFClassifier

    return RiverTrees(task, lambda: ARFClassifier(seed=0))


class Retrained:
    """LightGBM with its defaults, trained anew on all rows so far, about forty times along the stream."""

    def __init__(self, task: StreamTask) -> None:
        categories = {name: task.rows[name].astype("category") for name in task.ids}
        self._rows, self._target = task.rows.assign(**categories), task.target
        self._known: list[Places] = []
        self._num_known, self._next = 0, 0
        self._every = len(task.rows) // NUM_TRAININGS
        self._model: Any = None
        self._rate = BaseRate(task)

    def learn(self, places: Places) -> None:
        from lightgbm import LGBMClassifier

        self._rate.learn(places)
        self._known.append(places)
        self._num_known += len(places)
        if self._num_known >= self._next:
            known = np.concatenate(self._known)
            if len(set(self._target[known])) == 2:
                self._model = LGBMClassifier(n_jobs=1, verbose=-1).fit(self._rows.iloc[known], self._target[known])
                self._next = self._num_known + self._every

    def predict(self, places: Places) -> Array:
        if self._model is None:
            return self._rate.predict(places)
        chances: NDArray[np.float64] = self._model.predict_proba(self._rows.iloc[places])[:, 1]
        return chances


FIELD = Field(
    STREAMS,
    {
        SAMOVAR: Contestant({"": learn_with_samovar}, NUM_SEEDS, "samovar.training"),
        TUNED: Contestant(
            {name: partial(learn_with_samovar, **options) for name, options in TUNED_SETTINGS.items()},
            NUM_SEEDS,
            "samovar.training",
        ),
        VW: Contestant(
            {name: partial(progress, partial(VowpalWabbit, options=options)) for name, options in VW_SETTINGS.items()},
            library="vowpalwabbit",
        ),
        RIVER: Contestant(
            {
                "logistic regression": partial(progress, RiverLinear),
                "Hoeffding adaptive tree": partial(progress, make_hoeffding_tree),
                "adaptive random forest": partial(progress, make_forest),
            },
            library="river",
        ),
        LIGHTGBM: Contestant({"": partial(progress, Retrained)}, library="lightgbm"),
        BASE_RATE: Contestant({"": partial(progress, BaseRate)}),
    },
)
