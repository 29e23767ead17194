"""Rolling rates: what was known at each row's time, and nothing else, from every engine."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import samovar
from samovar.brewing.brew import load_recipe
from samovar.brewing.engines import find_engine
from samovar.brewing.parts import Part
from samovar.brewing.plan import find_recipe_sources, plan_recipe
from samovar.brewing.progress import BrewCounts
from samovar.brewing.sources import scan
from samovar.embeddings import HashAdagrad
from samovar.errors import BadInput, ConfigError, SamovarError

HOUR = 3600
START = 1_600_002_000  # a whole hour
RATE = {"of": "late", "by": ["carrier"], "window": "5h", "known_after": "90m", "smoothing": 3}
NAMES = ["late_rate_by_carrier", "late_rate_by_carrier_count"]
COLUMNS = {"carrier": "hash", "late": "number", "number": "key"}


def make_rows(times: list[int], carriers: list[Any], outcomes: list[Any]) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "time": [START + time for time in times],
            "carrier": pd.array(carriers, "string"),
            "late": pd.array(outcomes, "float64"),
            "number": range(len(times)),
        }
    )


def brew_with(engine: str, rows: pd.DataFrame, folder: Path, **keys: Any) -> dict[int, tuple[float, float]]:
    """Both columns of the rate, by the number of the row."""
    rows.to_parquet(folder / "rows.parquet")
    recipe = {"source": "rows.parquet", "time_field": "time", "columns": COLUMNS, "rates": [RATE], "batch_size": 4}
    loaded = load_recipe({**recipe, **keys}, "recipe", folder)
    scanned = {key: scan(each) for key, each in find_recipe_sources(loaded.recipe, folder).items()}
    sorter = find_engine(engine)
    plan = plan_recipe(loaded.recipe, scanned, sorter)
    queries, found = [table.query for table in plan.tables], {}
    made = sorter.map_parts(queries, [Part()], lambda _, rows, __: list(plan.minibatches(rows, BrewCounts())))
    for batch in next(made):
        values: Any = batch.values
        numbers = values["number"].to_pylist()
        for number, rate, count in zip(numbers, *(values[name].tolist() for name in NAMES), strict=True):
            found[number] = (rate, count)
    return found


def expected(rows: pd.DataFrame, number: int) -> tuple[float, float]:
    now = rows.time[number]
    known = rows[(rows.time >= now - 5 * HOUR) & (rows.time <= now - 90 * 60) & rows.late.notna()]
    mine = known[known.carrier == rows.carrier[number]]
    if rows.carrier.isna()[number]:
        mine = known[known.carrier.isna()]
    mean = known.late.mean() if len(known) else 0.0
    return (mine.late.sum() + 3 * mean) / (len(mine) + 3), math.log1p(len(mine))


@st.composite
def logs(draw: st.DrawFn) -> pd.DataFrame:
    times = draw(st.lists(st.integers(0, 12 * HOUR), min_size=1, max_size=40))
    size = len(times)
    carriers = draw(st.lists(st.sampled_from(["A", "B", None]), min_size=size, max_size=size))
    outcomes = draw(st.lists(st.sampled_from([0.0, 1.0, 2.5, -0.125, None]), min_size=size, max_size=size))
    return make_rows(times, carriers, outcomes)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=logs())
def test_rates_are_those_of_a_plain_loop_from_every_engine(tmp_path: Path, rows: pd.DataFrame) -> None:
    wanted = {number: expected(rows, number) for number in range(len(rows))}
    for engine in ("duckdb", "memory"):
        found = brew_with(engine, rows, tmp_path)
        assert found.keys() == wanted.keys()
        for number, values in wanted.items():
            assert found[number] == pytest.approx(values, abs=1e-5), (engine, number)
    assert brew_with("duckdb", rows, tmp_path) == brew_with("memory", rows, tmp_path)


@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=logs(), at=st.integers(0, 12 * HOUR), seed=st.integers(0, 2**32 - 1))
def test_outcomes_that_were_not_known_yet_change_no_rate(
    tmp_path: Path, rows: pd.DataFrame, at: int, seed: int
) -> None:
    now = START + at
    before = brew_with("duckdb", rows, tmp_path)
    unknown = np.flatnonzero(rows.time > now - 90 * 60)
    changed = rows.copy()
    changed.loc[unknown, "late"] = 7 * np.random.default_rng(seed).permutation(rows.late.to_numpy()[unknown]) + 1
    after = brew_with("duckdb", changed, tmp_path)
    for number in np.flatnonzero(rows.time <= now):
        assert after[int(number)] == before[int(number)]


def test_rows_before_the_first_hour_count_and_are_not_taken(tmp_path: Path) -> None:
    rows = make_rows([HOUR * hour for hour in range(10)], ["A"] * 10, [0, 1] * 5)
    whole = brew_with("duckdb", rows, tmp_path)
    for engine in ("duckdb", "memory"):
        start = pd.Timestamp(START + 6 * HOUR, unit="s").isoformat()
        late = brew_with(engine, rows, tmp_path, start_date=start)
        assert late == {number: values for number, values in whole.items() if number >= 6}


def test_a_live_table_with_rates_equals_one_that_is_brewed_whole(tmp_path: Path) -> None:
    rows = make_rows([600 * step for step in range(60)], ["A", "B"] * 30, [0, 1, 1] * 20)
    keys: dict[str, Any] = {"time": "time", "columns": COLUMNS, "rates": [RATE], "batch_size": 4, "progress": False}
    whole = samovar.brew(rows, tmp_path / "whole", **keys)
    live = samovar.brew(rows[rows.time < START + 7 * HOUR], tmp_path / "live", append=True, **keys)
    later = {"start_date": pd.Timestamp(START + 7 * HOUR, unit="s").isoformat()}
    with pytest.raises(BadInput, match=r"rates count earlier rows too\. Give the files of the whole window"):
        samovar.brew(rows[rows.time >= START + 7 * HOUR], tmp_path / "live", append=True, **keys)
    live = samovar.brew(rows, tmp_path / "live", append=True, **keys, **later)
    for ours, theirs in zip(live.read(), whole.read(), strict=True):
        first: Any = ours
        second: Any = theirs
        for name in (*NAMES, "late"):
            assert first[name].tolist() == second[name].tolist()


class Sum(samovar.BaseEmbeddingModel):
    def forward(self, inputs: Any) -> torch.Tensor:
        return self.embedding.concat({"carrier": inputs["carrier"]}).sum(1) + torch.stack(
            [inputs[name] for name in NAMES]
        ).sum(0)

    def get_required_features_list(self) -> list[str]:
        return [*super().get_required_features_list(), *NAMES]


def build(params: Any) -> samovar.Learner:
    model = Sum({"carrier": 1})
    loss = lambda output, targets: (output - targets["late"]).square().mean()  # noqa: E731  # as users write it
    return samovar.Learner(model, HashAdagrad(model.hash_embeddings(), lr=0.1), loss)


def test_who_scores_a_row_sends_its_rates(tmp_path: Path) -> None:
    rows = make_rows([600 * step for step in range(60)], ["A", "B"] * 30, [0, 1, 1] * 20)
    table = samovar.brew(
        rows, tmp_path / "table", time="time", columns=COLUMNS, rates=[RATE], batch_size=4, progress=False
    )
    samovar.train(build, table, targets=["late"], model_dir=tmp_path / "model")
    model = samovar.load(tmp_path / "model")
    row = {"carrier": "A", NAMES[0]: 0.5, NAMES[1]: 1.0}
    assert model.predict([row])[0] != model.predict([{**row, NAMES[0]: 0.75}])[0]
    with pytest.raises(
        BadInput, match=r"this row has no rolling rate of late by carrier.*send it as column 'late_rate_by_carrier'"
    ):
        model.predict([{"carrier": "A", NAMES[1]: 1.0}])


@pytest.mark.parametrize(
    ("change", "answer"),
    [
        ({"window": "1h"}, "window must be longer than known_after, got 1h and 90m"),
        ({"known_after": "soon"}, "must be a number of minutes, hours or days, such as 30m, 12h or 7d, got 'soon'"),
        ({"of": "lat"}, "no column 'lat'. Did you mean 'late'"),
        ({"of": "carrier"}, "rates: column 'carrier' is string, expected numbers, or true and false"),
        ({"by": ["late"]}, "rates: column 'late' is double, expected integers, strings or times"),
        ({"name": "late"}, "two columns would be called 'late'"),
        ({"smoothing": -1}, "smoothing"),
    ],
)
def test_mistakes_are_explained(tmp_path: Path, change: dict[str, Any], answer: str) -> None:
    rows = make_rows([0, HOUR], ["A", "B"], [0, 1])
    with pytest.raises(SamovarError) as caught:
        samovar.brew(rows, tmp_path / "t", time="time", columns=COLUMNS, rates=[{**RATE, **change}], progress=False)
    assert answer in str(caught.value)


def test_rates_need_times(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rates need time_field"):
        samovar.brew(make_rows([0], ["A"], [0]), tmp_path / "t", columns=COLUMNS, rates=[RATE], progress=False)
