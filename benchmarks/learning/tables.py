"""Who learns the tables: each takes the same rows and a seed, and predicts the test rows. All with their defaults.

Every library is imported by its own contestant, in a process of its own.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from benchmarks.learning.contest import Contestant, Field, Predicted
from benchmarks.learning.table_data import TABLES, TableTask

SAMOVAR, SAMOVAR_FAST = "Samovar", "Samovar, fast=True"
HIST, LIGHTGBM, CATBOOST = "scikit-learn HistGradientBoosting", "LightGBM", "CatBoost"


def learn_with_samovar(task: TableTask, seed: int, fast: bool = False) -> Predicted:
    from samovar import PytorchTrainer

    trainer = PytorchTrainer().fit(task.train, task.target, fast=fast, seed=seed, verbose=False)
    rows = task.test.drop(columns=task.target)
    if task.is_regression:
        return np.asarray(trainer.predict(rows), np.float64)
    if list(trainer.classes_) != task.classes:
        raise ValueError(f"{task.name}: classes {list(trainer.classes_)}, expected {task.classes}")
    return np.asarray(trainer.predict_proba(rows), np.float64)


def learn_with_samovar_fast(task: TableTask, seed: int) -> Predicted:
    return learn_with_samovar(task, seed, fast=True)


def learn_with_hist(task: TableTask, seed: int) -> Predicted:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from threadpoolctl import threadpool_limits

    kind = HistGradientBoostingRegressor if task.is_regression else HistGradientBoostingClassifier
    with threadpool_limits(1):  # it has no argument for this
        return _fit_and_predict(kind(random_state=seed, categorical_features="from_dtype"), task)


def learn_with_lightgbm(task: TableTask, seed: int) -> Predicted:
    import lightgbm

    kind = lightgbm.LGBMRegressor if task.is_regression else lightgbm.LGBMClassifier
    return _fit_and_predict(kind(random_state=seed, n_jobs=1, verbose=-1), task)


def learn_with_catboost(task: TableTask, seed: int) -> Predicted:
    import catboost

    kind = catboost.CatBoostRegressor if task.is_regression else catboost.CatBoostClassifier
    text = find_text(task)
    options = {"random_seed": seed, "thread_count": 1, "verbose": False, "allow_writing_files": False}
    return _fit_and_predict(kind(cat_features=text, **options), task)


def _fit_and_predict(model: Any, task: TableTask) -> Predicted:
    rows = as_categories(task)
    train, test = rows(task.train), rows(task.test)
    model.fit(train, task.train[task.target])
    if task.is_regression:
        return np.asarray(model.predict(test), np.float64)
    if [str(name) for name in model.classes_] != task.classes:
        raise ValueError(f"{task.name}: classes {list(model.classes_)}, expected {task.classes}")
    return np.asarray(model.predict_proba(test), np.float64)


def find_text(task: TableTask) -> list[str]:
    return list(task.rows.drop(columns=task.target).select_dtypes(object))


def as_categories(task: TableTask) -> Callable[[pd.DataFrame], pd.DataFrame]:
    """A function that drops the target and gives text the dtype that the trees expect."""
    kinds = {name: pd.CategoricalDtype(sorted(set(task.rows[name]))) for name in find_text(task)}
    return lambda rows: rows.drop(columns=task.target).astype(kinds)


NUM_SEEDS = 3
FIELD = Field(
    TABLES,
    {
        SAMOVAR: Contestant({"": learn_with_samovar}, NUM_SEEDS, "samovar.trainer"),
        SAMOVAR_FAST: Contestant({"": learn_with_samovar_fast}, NUM_SEEDS, "samovar.trainer"),
        HIST: Contestant({"": learn_with_hist}, NUM_SEEDS, "sklearn.ensemble"),
        LIGHTGBM: Contestant({"": learn_with_lightgbm}, NUM_SEEDS, "lightgbm"),
        CATBOOST: Contestant({"": learn_with_catboost}, NUM_SEEDS, "catboost"),
    },
)
