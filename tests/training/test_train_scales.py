"""Training with running scales: what the model keeps, and that every way of scoring agrees."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.errors import BadInput, ConfigError, Conflict
from samovar.provenance.contract import compare, contract_of
from samovar.training import PredictionDirectory

QUIET: dict[str, Any] = {"num_threads": 1, "progress": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table with raw prices in the thousands, and a model that is trained on it."""
    folder = tmp_path_factory.mktemp("scales")
    (folder / "model.py").write_text(SCRIPT)
    scaled = {name: {"number": {"scale": "running"}} for name in ("price", "vector")}
    table = samovar.brew(
        make_prices(), folder / "table", time="time", columns={**COLUMNS, **scaled}, batch_size=50, progress=False
    )
    samovar.brew(make_prices(), folder / "plain", time="time", columns=COLUMNS, batch_size=50, progress=False)
    samovar.train(folder / "model.py", table, targets=["clicked"], model_dir=folder / "model", epoch_count=2, **QUIET)
    return folder


def make_prices() -> pd.DataFrame:
    frame = make_frame()
    frame["price"] = [None if pd.isna(each) else 5000 + 1000 * each for each in frame["price"]]
    return frame


def test_the_table_has_raw_values_and_the_model_their_mean_and_deviation(place: Path) -> None:
    records: list[Any] = list(samovar.open_table(place / "table").read(["price", "vector"]))
    rows = np.concatenate([np.column_stack([record["price"], record["vector"]]) for record in records]).astype(float)
    assert rows[:, 0].max() > 6000
    weights = samovar.results.open_directory(place / "model").load_model().tree["model"]["weights"]
    count, mean, squares = (weights[f"running_scale.{name}"].numpy() for name in ("count", "mean", "squares"))
    assert count.tolist() == [2 * len(rows)] * 4
    assert np.allclose(mean, rows.mean(0))
    assert np.allclose(squares, 2 * len(rows) * rows.var(0))


def test_predict_load_and_a_table_without_scales_give_the_same_scores(place: Path, tmp_path: Path) -> None:
    frame = make_prices()
    model = samovar.load(place / "model")
    expected = model.predict(frame)
    assert np.array_equal(model.predict(frame), expected)  # scoring counts nothing
    assert np.array_equal(model.predict(frame.iloc[::-1])[::-1], expected)
    for name in ("table", "plain"):
        done = samovar.predict(place / "model", place / name, tmp_path / name, keys=["hit"])
        found = PredictionDirectory.of(done.path).predictions().sort_values("hit")["prediction"]
        assert np.array_equal(np.asarray(found), expected)


def test_both_spellings_are_one_table_and_the_scale_is_part_of_its_id(place: Path, tmp_path: Path) -> None:
    columns = {name: role for name, role in COLUMNS.items() if name not in ("price", "vector", "clicked")}
    keys: dict[str, Any] = {"time": "time", "columns": columns, "batch_size": 50, "progress": False}
    lists: dict[str, Any] = {"realvalue_factors": ["price", "vector", "clicked"]}
    long = samovar.brew(
        make_prices(), tmp_path / "long", **keys, **lists, scale=dict.fromkeys(("price", "vector"), "running")
    )
    schema = json.dumps(long.schema.to_json(), sort_keys=True)
    assert schema.count('"scale": "running"') == 2
    plain = samovar.brew(make_prices(), tmp_path / "plain", **keys, **lists)
    assert plain.id != long.id
    with pytest.raises(ConfigError, match="scale: column 'user' is not a number by its role, nor in realvalue_factors"):
        samovar.brew(make_prices(), tmp_path / "bad", **keys, scale={"user": "running"})
    with pytest.raises(ConfigError, match="scale"):
        samovar.brew(make_prices(), tmp_path / "bad", time="time", columns={"price": {"number": {"scale": "once"}}})


def test_a_model_without_scales_cannot_continue_with_them(place: Path, tmp_path: Path) -> None:
    start = samovar.train(
        place / "model.py", place / "plain", targets=["clicked"], model_dir=tmp_path / "plain", **QUIET
    )
    with pytest.raises(Conflict, match="running_scale"):
        samovar.train(
            place / "model.py", place / "table", targets=["clicked"], model_dir=tmp_path / "more",
            init_from=str(start.path), **QUIET,
        )  # fmt: skip


def test_a_contract_of_two_runs_is_equal(place: Path, tmp_path: Path) -> None:
    again = samovar.train(
        place / "model.py", place / "table", targets=["clicked"], model_dir=tmp_path / "again", epoch_count=2, **QUIET
    )
    assert compare(contract_of(again.path), contract_of(place / "model")) == []


def test_a_model_continues_only_on_numbers_that_the_same_statistics_scaled(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(SCRIPT)
    keys: dict[str, Any] = {"time": "time", "columns": {**COLUMNS, "price": {"number": {"scale": "standard"}}}}
    dear = make_prices().assign(price=lambda frame: 3 * frame["price"])
    tables: list[tuple[str, pd.DataFrame, dict[str, Any]]] = [
        ("first", make_prices(), {}),
        ("other", dear, {}),
        ("same", dear, {"statistics": str(tmp_path / "first")}),
    ]
    for name, frame, more in tables:
        samovar.brew(frame, tmp_path / name, **keys, **more, batch_size=50, progress=False)

    def train(table: str, out: str, **more: Any) -> samovar.training.ModelDirectory:
        return samovar.train(
            tmp_path / "model.py", tmp_path / table, targets=["clicked"], model_dir=tmp_path / out, **QUIET, **more
        )

    start = str(train("first", "start").path)
    with pytest.raises(BadInput, match=r"train_data: column 'price' was brewed by another mean than the model's"):
        train("other", "refused", init_from=start)
    train("same", "taken", init_from=start)
    train("other", "allowed", init_from={"model": start})
    assert json.loads((tmp_path / "allowed/start.json").read_text())["rescaled"] == ["price"]
