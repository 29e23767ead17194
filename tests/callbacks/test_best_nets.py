import pytest
import torch

from samovar.callbacks import BestNets
from samovar.callbacks.best_nets import Net, average, select_near_best
from samovar.errors import BadInput
from samovar.runner import Learner, Run, Uri


def test_only_nets_near_the_best_are_averaged_and_buffers_too() -> None:
    nets = [
        Net(epoch, loss, {"w": torch.full((2,), float(epoch)), "count": torch.tensor(epoch)})
        for epoch, loss in [(1, -1.0), (4, -0.95), (9, -0.85)]
    ]
    near = select_near_best(nets)
    assert [net.epoch for net in near] == [1, 4]
    averaged = average(near)
    assert averaged["w"].tolist() == [2.5, 2.5]
    assert averaged["count"].dtype == torch.int64
    assert averaged["count"].item() == 2


class Tables(torch.nn.Linear):
    """Has state that is no tensor, as a hash embedding."""

    def get_extra_state(self) -> dict[str, int]:
        return {"rows": 3}

    def set_extra_state(self, state: dict[str, int]) -> None: ...


def test_state_that_is_no_tensor_can_be_kept_once_but_not_averaged() -> None:
    run = Run(Learner(Tables(1, 1), [], lambda output, targets: output))
    run.begin_uri(Uri(0, "", None, 0, 1, 0))  # type: ignore[arg-type]  # nothing is read
    one = BestNets(1, lambda run: 1.0)
    one.on_uri_end(run)
    assert one.nets[0].weights["_extra_state"] == {"rows": 3}
    with pytest.raises(BadInput, match="_extra_state: cannot be averaged over nets, because it is not a tensor"):
        BestNets(2, lambda run: 1.0).on_uri_end(run)
