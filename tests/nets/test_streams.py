"""The net for streams: what it starts from, what it learns, exact resumption, and errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from tests.training.toys import ONLINE, make_hours, make_toy, write_table

import samovar
from samovar import Bag
from samovar.errors import BadInput, UnknownColumn
from samovar.nets import StreamModel, stream_learner
from samovar.provenance.verify import verify_resume

START = 1_767_225_600
COLUMNS: dict[str, Any] = {
    "ad": "hash",
    "price": {"number": {"scale": "running"}},
    "clicked": "number",
}
SCRIPT = """
from samovar.nets import StreamModel, stream_learner


def build(params):
    model = StreamModel(ids=["ad", "words"], numbers=["price"])
    return stream_learner(model, "clicked", ttl=params.get("ttl", 1), lr=params.lr)
"""


def one_id_each(*ids: int) -> Bag:
    return Bag(torch.tensor(ids), torch.ones(len(ids), dtype=torch.int32))


def make_log(num_rows: int = 3000, num_hours: int = 12) -> pd.DataFrame:
    """Prices in the thousands, and an interaction that no sum of weights can say: which ads like high prices."""
    rng = np.random.default_rng(0)
    time = START + np.arange(num_rows) * num_hours * 3600 // num_rows
    ad, price = rng.integers(0, 6, num_rows), rng.normal(5000, 1000, num_rows)
    odds = np.where(ad % 2, 1, -1) * (price - 5000) / 300
    clicked = (rng.random(num_rows) < 1 / (1 + np.exp(-odds))).astype(int)
    return pd.DataFrame({"time": time, "ad": [f"ad {number}" for number in ad], "price": price, "clicked": clicked})


def train(folder: Path, log: pd.DataFrame, script: str, **options: Any) -> Any:
    (folder / "model.py").write_text(script)
    table = samovar.brew(log, folder / "table", time="time", columns=COLUMNS, batch_size=32, progress=False)
    return samovar.train(
        folder / "model.py", table, targets=["clicked"], evaluate={"ahead": {"shifts": [1]}},
        model_dir=folder / "model", num_threads=1, progress=False, **options,
    )  # fmt: skip


def test_a_stream_is_learned_in_one_pass_and_raw_rows_are_scored_the_same(tmp_path: Path) -> None:
    log = make_log()
    script = SCRIPT.replace('["ad", "words"]', '["ad"]').replace(", lr=params.lr", "")
    found = train(tmp_path, log, script).predictions()
    chance, clicked = found["prediction"].to_numpy(), found["clicked"].to_numpy()
    losses = -np.log(np.where(clicked == 1, chance, 1 - chance))
    assert losses[-1000:].mean() < 0.45  # a coin's is 0.69; the truth's, about 0.29
    rows = log.tail(5)
    model = samovar.load(tmp_path / "model")
    assert np.array_equal(model.predict(rows.iloc[::-1])[::-1], model.predict(rows))


def test_kills_change_no_bit(quick_path: Path) -> None:
    write_table(quick_path / "clicks", make_hours([2, 1, 0, 2, 1, 1, 2]))
    done = verify_resume(make_toy(quick_path, ONLINE, {}, SCRIPT), 3, quick_path / "verify")
    assert (done.num_kills, done.differences) == (3, [])


@pytest.mark.parametrize(("ids", "numbers"), [(["ad"], []), ([], ["price"]), (["ad"], ["price"])])
def test_it_starts_at_even_odds_and_takes_ids_numbers_or_both(ids: list[str], numbers: list[str]) -> None:
    learner = stream_learner(StreamModel(ids, numbers), "clicked")
    assert learner.required_features() == [*ids, *numbers]
    assert list(learner.optimizers) == ["net", *(["emb"] if ids else [])]
    inputs = {"ad": one_id_each(1, 2, 1), "price": torch.tensor([1.0, -1.0, 0.5])}
    wanted = torch.tensor([1.0, 0.0, 1.0])
    learner.model.train()
    with torch.no_grad():
        assert learner.model(inputs).abs().max() < 0.02
    losses = []
    for _ in range(60):
        for optimizer in learner.optimizers.values():
            optimizer.zero_grad()
        loss = learner.loss(learner.model(inputs), {"clicked": wanted})
        loss.backward()  # type: ignore[no-untyped-call]  # torch gives it no types
        for optimizer in learner.optimizers.values():
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(np.log(2), abs=0.02)
    assert losses[-1] < 0.1


def test_a_missing_number_counts_as_zero() -> None:
    model = StreamModel(["ad"], ["price"])
    torch.nn.init.ones_(model.wide.weight)  # type: ignore[union-attr]  # it has numbers
    ads = one_id_each(7, 7)
    found = model({"ad": ads, "price": torch.tensor([float("nan"), 0.0])})
    assert found[0] == found[1]


def test_an_id_that_was_never_trained_adds_nothing() -> None:
    model = StreamModel(["ad"], hidden=()).eval()
    torch.nn.init.ones_(model.deep[0].weight)  # type: ignore[arg-type]  # torch types modules as Any
    assert model({"ad": one_id_each(7)}).item() == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "ids and numbers are both empty"),
        ({"ids": "user"}, "ids must be a list of columns, got the text 'user'"),
        ({"ids": ["user", "ad"], "numbers": ["ad"]}, "column 'ad' is named twice"),
        (
            {"ids": ["user"], "hidden": (64, 0)},
            r"hidden must be widths of at least 1, such as \(64, 64\), got \(64, 0\)",
        ),
        ({"ids": ["user"], "dim": 0}, "feature 'user': the dimension must be an integer from 1 to 512, got 0"),
    ],
)
def test_wrong_arguments_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        StreamModel(**arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [({"lr": -1.0}, "lr must be 0 or more, got -1.0"), ({"emb_lr": -1.0}, "lr must be"), ({"ttl": -1}, "ttl must be")],
)
def test_wrong_rates_are_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInput, match=message):
        stream_learner(StreamModel(["user"], ["price"]), "clicked", **arguments)


def test_a_column_of_another_kind_is_named() -> None:
    model = StreamModel(numbers=["price"])
    with pytest.raises(BadInput, match="column 'price' is among the numbers, but holds ids"):
        model({"price": one_id_each(1)})
    with pytest.raises(BadInput, match=r"column 'price' must hold one number per row, got the shape \[4, 2\]"):
        model({"price": torch.zeros(4, 2)})


@pytest.mark.parametrize("odd", [2.0, -1.0, float("nan")])
def test_a_target_that_is_no_chance_is_named(odd: float) -> None:
    learner = stream_learner(StreamModel(numbers=["price"]), "clicked")
    with pytest.raises(BadInput, match=r"target 'clicked' must be from 0 \(no\) to 1 \(yes\), got"):
        learner.loss(torch.zeros(2), {"clicked": torch.tensor([1.0, odd])})


def test_a_missing_column_is_named_before_anything_is_written(tmp_path: Path) -> None:
    script = SCRIPT.replace('["ad", "words"]', '["adv"]').replace(", lr=params.lr", "")
    with pytest.raises(UnknownColumn, match=r"no column 'adv' in .* Did you mean 'ad'\?"):
        train(tmp_path, make_log(300, 3), script)
    assert not (tmp_path / "model").exists()
