"""The loop's order, its ends, and what a run's state holds."""

import pytest
import torch

from samovar.errors import BadInput, Conflict, Stopped
from samovar.policies import EarlyStopping
from samovar.runner import Callback, Learner, Loader, MinibatchWorkerPool, Run, Runner
from samovar.runner.uri import UriList
from samovar.testing.callback import make_learner, make_uris


class Scribe(Callback):
    """Writes down every moment."""

    def __init__(self, notes: list[str], name: str = "") -> None:
        self.notes = notes
        self.name = name

    def on_run_begin(self, run: Run) -> None:
        self.notes.append(f"{self.name}run begins")

    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        self.notes.append(f"{self.name}{run.uri.name} begins")

    def on_batch_end(self, run: Run) -> None:
        assert run.record is not None
        self.notes.append(f"{self.name}batch {run.record.number}")

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        self.notes.append(f"{self.name}{run.uri.name} ends, next {run.next_uri}")

    def on_run_end(self, run: Run) -> None:
        self.notes.append(f"{self.name}run ends")


def go(callbacks: list[Callback], learner: Learner | None = None, uris: UriList | None = None) -> Run:
    learner = learner or make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies, callbacks)
    Runner(pool, Loader(), callbacks).run(run, uris or make_uris())
    return run


def test_the_five_moments_come_in_order_also_for_an_hour_without_rows() -> None:
    notes: list[str] = []
    run = go([Scribe(notes)], uris=UriList(make_uris().uris[1:3]))
    assert notes == [
        "run begins",
        "hour 1 begins", "batch 2", "batch 3", "hour 1 ends, next 2",
        "hour 2 begins", "hour 2 ends, next 3",
        "run ends",
    ]  # fmt: skip
    assert (run.num_batches, run.num_examples) == (2, 8)


def test_callbacks_are_called_in_their_order() -> None:
    notes: list[str] = []
    go([Scribe(notes, "a "), Scribe(notes, "b ")], uris=UriList(make_uris().uris[:1]))
    assert [note for note in notes if "ends, next" in note] == ["a hour 0 ends, next 1", "b hour 0 ends, next 1"]


def test_early_stopping_lets_the_other_callbacks_of_the_uri_run_and_ends_in_order() -> None:
    class Enough(Callback):
        def on_uri_end(self, run: Run) -> None:
            if run.next_uri == 2:
                raise EarlyStopping("enough")

    notes: list[str] = []
    run = go([Enough(), Scribe(notes)])
    assert notes[-2:] == ["hour 1 ends, next 2", "run ends"]
    assert run.end_reason == "enough"


def test_a_run_that_has_ended_trains_no_more_when_it_goes_on() -> None:
    learner = make_learner()
    pool = MinibatchWorkerPool(learner)
    run = Run(learner, pool.settings.policies)
    run.end_reason = "enough"
    notes: list[str] = []
    Runner(pool, Loader(), [Scribe(notes)]).run(run, make_uris())
    assert notes == ["run begins", "run ends"]


def test_a_stop_comes_after_all_callbacks_of_the_uri() -> None:
    class Stop(Callback):
        def on_batch_end(self, run: Run) -> None:
            run.stop("as asked")

    notes: list[str] = []
    with pytest.raises(Stopped, match=r"stopped after hour 0 \(as asked\)"):
        go([Stop(), Scribe(notes)])
    assert notes[-1] == "hour 0 ends, next 1"


def test_an_error_names_the_minibatch() -> None:
    learner = make_learner()

    def loss(output: torch.Tensor, targets: object) -> torch.Tensor:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError) as caught:
        go([], Learner(learner.model, learner.optimizers, loss))
    assert caught.value.__notes__ == ["in minibatch 0 of hour 0"]


def test_a_loss_must_be_one_number() -> None:
    learner = make_learner()
    with pytest.raises(BadInput, match=r"loss: gave a tensor of shape \[4\]; expected a tensor with one number"):
        go([], Learner(learner.model, learner.optimizers, lambda output, targets: output))


def test_a_learner_checks_what_it_is_given() -> None:
    with pytest.raises(BadInput, match=r"found a model of type int; expected a torch.nn.Module"):
        Learner(3, [], lambda output: output)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(BadInput, match="predict cannot be called"):
        Learner(torch.nn.Linear(1, 1), [], lambda output: output, None)  # type: ignore[arg-type]  # that is the test
    with pytest.raises(BadInput, match=r"optimizer 0 is of type NoneType; expected one of torch's"):
        Learner(torch.nn.Linear(1, 1), None, lambda output: output)
    with pytest.raises(BadInput, match="found a callback of type function; expected objects of a class"):
        Learner(torch.nn.Linear(1, 1), [], lambda output: output, callbacks=[lambda run: None])  # type: ignore[list-item]  # that is the test


def test_a_state_of_another_model_is_refused() -> None:
    state = go([]).state_dict()
    other = Run(Learner(torch.nn.Linear(5, 1), [], lambda output: output))
    with pytest.raises(Conflict, match="does not fit what the script builds"):
        other.load_state_dict(state)


def test_a_state_with_a_callback_that_is_not_there_is_refused() -> None:
    class Counter(Callback):
        def state_dict(self) -> dict[str, int]:
            return {"count": 1}

    state = go([Counter()]).state_dict()
    with pytest.raises(Conflict, match=r"has a callback of the names \(Counter\)"):
        Run(make_learner()).load_state_dict(state)


def test_the_mean_loss_counts_examples_and_nothing_without_any() -> None:
    run = Run(make_learner())
    assert run.mean_loss is None
    run.losses, run.uri_examples = [1.0, 4.0], [3, 1]
    assert run.mean_loss == 1.75
    run.uri_examples = [0, 0]
    assert run.mean_loss == 2.5


class Enough(Callback):
    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        if run.uri.number == 1:
            raise EarlyStopping("enough")


def test_early_stopping_at_a_uris_begin_ends_the_run_before_it() -> None:
    notes: list[str] = []
    run = go([Enough(), Scribe(notes)])
    assert (run.end_reason, run.next_uri) == ("enough", 1)
    assert notes[-2:] == ["hour 1 begins", "run ends"]


def test_a_state_of_another_type_than_the_weights_comes_back_as_it_was() -> None:
    def learn() -> Run:
        model = torch.nn.Linear(1, 1).bfloat16()
        return Run(Learner(model, torch.optim.NAdam(model.parameters()), lambda output: output))

    straight, resumed = learn(), learn()
    straight.model(torch.ones(1, 1, dtype=torch.bfloat16)).sum().backward()
    straight.optimizers["0"].step()
    resumed.load_state_dict(straight.state_dict())
    before, after = (run.optimizers["0"].state_dict()["state"][0] for run in (straight, resumed))
    assert {key: value.dtype for key, value in before.items()} == {key: value.dtype for key, value in after.items()}
    assert all(torch.equal(value, after[key]) for key, value in before.items())


class Boxed(torch.optim.SGD):
    """Keeps its state in a way of its own, as wrappers of optimizers do."""

    def state_dict(self) -> dict[str, object]:
        return {"inner": super().state_dict()}

    def load_state_dict(self, state_dict: dict[str, object]) -> None:
        super().load_state_dict(state_dict["inner"])  # type: ignore[arg-type]  # torch's own


def test_a_state_of_another_layout_is_left_to_its_optimizer() -> None:
    def learn(momentum: float) -> Run:
        model = torch.nn.Linear(1, 1)
        return Run(Learner(model, Boxed(model.parameters(), momentum=momentum), lambda output: output))

    straight, resumed = learn(0.5), learn(0.0)
    straight.model(torch.ones(1, 1)).sum().backward()
    straight.optimizers["0"].step()
    resumed.load_state_dict(straight.state_dict())
    assert resumed.optimizers["0"].param_groups[0]["momentum"] == 0.5
