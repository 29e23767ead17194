"""Every callback passes the contract that ships in `samovar.testing`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from samovar.callbacks import (
    BestNets,
    Countdown,
    EarlyStop,
    MetricsLog,
    NanGuard,
    Plateau,
    PolicyClock,
    Progress,
    RateFactor,
    Restarts,
    Signals,
    Snapshotter,
    StopFile,
    TensorBoard,
    TimingLog,
    TtlFilter,
)
from samovar.callbacks.evaluation import TableEvaluation
from samovar.callbacks.watching import BestEpoch, MetricPlateau, MetricStop, WatchedMetric
from samovar.results import OpenResult, ResultDirectory, ResultPlan, begin
from samovar.runner import Callback, Run
from samovar.store import MemoryStore
from samovar.testing import CallbackContract


def open_result() -> OpenResult:
    result = begin(ResultDirectory(MemoryStore()), ResultPlan("model", {}), heartbeat_seconds=None)
    result.restore()
    return result


@pytest.mark.parametrize(
    "make_callback",
    [
        NanGuard,
        PolicyClock,
        TtlFilter,
        Signals,
        lambda: Snapshotter(open_result(), every_seconds=0),
        lambda: MetricsLog(open_result()),
        lambda: TensorBoard(open_result()),
        lambda: TimingLog(open_result()),
        lambda: Progress(5),
        lambda: StopFile(Path("nowhere")),
        lambda: BestNets(2, lambda run: run.mean_loss),
        lambda: Plateau(Countdown(8), RateFactor()),
        lambda: Restarts(Plateau(Countdown(8), RateFactor())),
        lambda: EarlyStop(Plateau(Countdown(8), RateFactor())),
        lambda: MetricStop(WatchedMetric("valid.auc"), Countdown(8)),
        lambda: MetricPlateau(WatchedMetric("valid.auc"), Countdown(8), RateFactor(), 0.5),
        lambda: TableEvaluation(open_result(), []),
        lambda: BestEpoch(open_result(), ["valid"], None, 5),
    ],
)
class TestOurCallbacks(CallbackContract):
    pass


class CountBatches(Callback):
    def __init__(self) -> None:
        self.count = 0

    def on_batch_end(self, run: Run) -> None:
        self.count += 1

    def state_dict(self) -> dict[str, Any]:
        return {"count": self.count}

    def load_state_dict(self, state: Any) -> None:
        self.count = state["count"]


class TestACallbackWithAState(CallbackContract):
    @pytest.fixture
    def make_callback(self) -> Callable[[], Callback]:
        return CountBatches


def test_the_contract_finds_a_state_that_is_not_restored() -> None:
    class Forgetful(CountBatches):
        def load_state_dict(self, state: Any) -> None:
            pass

    with pytest.raises(AssertionError):
        CallbackContract().test_a_run_resumed_anywhere_ends_with_the_same_state(Forgetful, 3)


def test_the_contract_finds_a_callback_that_changes_the_model() -> None:
    class Changer(Callback):
        def on_batch_end(self, run: Run) -> None:
            for weights in run.model.parameters():
                weights.data.add_(1)

    with pytest.raises(AssertionError):
        CallbackContract().test_a_run_with_it_ends_with_the_same_model_as_a_run_without(Changer)
