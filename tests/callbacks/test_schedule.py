"""What happens after which epoch, for made-up losses."""

import math
from collections.abc import Sequence
from typing import Any

import pytest
import torch

from samovar.callbacks import BestNets, Countdown, EarlyStop, Plateau, RateFactor, Restarts
from samovar.callbacks.schedule import default_patience
from samovar.policies import EarlyStopping
from samovar.runner import Run, Uri
from samovar.testing.callback import make_learner

NAN = math.nan


def play(losses: Sequence[float], num_epochs: int, with_restarts: bool = True) -> dict[str, list[Any]]:
    """The epochs (from 1) of each save, cut, restart and stop, and the rate of each epoch."""
    events: dict[str, list[Any]] = {"saves": [], "cuts": [], "restarts": [], "stops": [], "rates": []}
    now: list[float] = [0.0]
    factor = RateFactor()
    plateau = Plateau(Countdown(default_patience(num_epochs), with_restarts), factor, lambda run: now[0])
    best = BestNets(1, lambda run: now[0], lambda net: events["saves"].append(net.epoch))
    run = Run(make_learner())
    for epoch, loss in enumerate(losses, 1):
        run.begin_uri(Uri(epoch, "", None, 0, 1, epoch))  # type: ignore[arg-type]  # nothing is read
        now[0] = loss
        events["rates"].append(round(factor.value, 3))
        best.on_uri_end(run)
        plateau.on_uri_end(run)
        Restarts(plateau).on_uri_end(run)
        if plateau.verdict in ("cut", "restart"):
            events[f"{plateau.verdict}s"].append(epoch)
        try:
            EarlyStop(plateau).on_uri_end(run)
        except EarlyStopping:
            events["stops"].append(epoch)
            break
    return events


@pytest.mark.parametrize(
    ("num_epochs", "restart", "cuts", "stop"), [(10, 1, [2], 3), (50, 2, [3, 6], 8), (100, 3, [5, 10], 15)]
)
def test_a_plateau_restarts_cuts_and_stops(num_epochs: int, restart: int, cuts: list[int], stop: int) -> None:
    events = play([1.0] * 100, num_epochs)
    assert events["saves"] == [1]
    assert events["restarts"] == [1 + restart]
    assert events["cuts"] == [1 + cut for cut in cuts]
    assert events["stops"] == [1 + stop]


@pytest.mark.parametrize(
    ("name", "losses", "expected"),
    [
        ("negative, ever lower", [-1, -2, -3, -4], {"saves": [1, 2, 3, 4], "stops": []}),
        ("negative, too little", [-1, -1.004, -1.004, -1.0045, *[-1] * 9],
         {"saves": [1, 2, 4], "restarts": [3], "stops": [9]}),
        ("negative, small steps add up", [-1, -1.003, -1.006, -1.006], {"saves": [1, 2, 3], "restarts": []}),
        ("crosses zero", [0.01, 0.0, -0.01, -0.01, -0.01], {"saves": [1, 2, 3], "restarts": [5]}),
        ("from zero", [0.0, -1e-9, 0.0, 0.0], {"saves": [1, 2], "restarts": [4]}),
        ("NaN first", [NAN, 1.0, NAN, NAN, 0.5], {"saves": [2, 5], "restarts": [4]}),
        ("only NaN", [NAN] * 20, {"saves": [], "restarts": [2], "cuts": [3, 6], "stops": [8]}),
        ("infinite", [math.inf, -math.inf, 1.0], {"saves": [3], "stops": []}),
        ("late progress", [1.0] * 8 + [0.9] * 10,
         {"saves": [1, 9], "restarts": [3, 11], "cuts": [4, 7, 12, 15], "stops": [17]}),
        ("just not progress", [1.0, 0.9951, 0.9951], {"saves": [1, 2], "restarts": [3]}),
        ("just progress", [1.0, 0.9949, 0.9949, 0.9949], {"saves": [1, 2], "restarts": [4]}),
    ],
)  # fmt: skip
def test_losses_lead_to_these_saves_cuts_restarts_and_stops(
    name: str, losses: list[float], expected: dict[str, list[int]]
) -> None:
    events = play(losses, 50)
    assert {key: events[key] for key in expected} == expected


def test_the_rate_is_cut_by_the_golden_ratio_and_reset_by_a_restart() -> None:
    assert play([1.0] * 9, 50)["rates"] == [1, 1, 1, 1, 0.618, 0.618, 0.618, 0.382, 0.382]
    late = play([1.0] * 8 + [0.9] * 4, 50)
    assert late["rates"][-4:] == [0.382, 0.382, 0.382, 1]


def test_without_restarts_the_rate_is_cut_when_a_cut_is_due() -> None:
    events = play([1.0] * 5, 10, with_restarts=False)
    assert events["restarts"] == []
    assert events["cuts"] == [2, 3]
    assert events["stops"] == [4]


def test_a_restart_gives_a_fresh_optimizer() -> None:
    learner = make_learner()
    run = Run(learner)
    learner.model({"x": torch.ones(1, 3)}).sum().backward()
    optimizer = run.optimizers["0"]
    optimizer.step()
    assert optimizer.state_dict()["state"]
    plateau = Plateau(Countdown(8), RateFactor())
    plateau.factor.value = 0.3
    plateau.verdict = "restart"
    Restarts(plateau).on_uri_end(run)
    assert not optimizer.state_dict()["state"]
    assert plateau.factor.value == 1
