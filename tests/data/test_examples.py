import numpy as np
import pytest

from samovar.data import split_examples
from samovar.errors import BadInput


def test_the_split_is_always_the_same_and_appended_examples_move_no_earlier_one() -> None:
    first, longer = split_examples(1000, 0.9, True), split_examples(1500, 0.9, True)
    assert split_examples(100, 0.8, True).valid.tolist()[:4] == GOLDEN
    assert longer.train[longer.train < 1000].tolist() == first.train.tolist()
    assert longer.valid[longer.valid < 1000].tolist() == first.valid.tolist()
    assert sorted([*first.train, *first.valid]) == list(range(1000))
    assert 60 < len(first.valid) < 140


GOLDEN = [1, 2, 6, 7]


def test_without_shuffle_the_tail_is_held_out() -> None:
    assert split_examples(10, 0.7, False).valid.tolist() == [7, 8, 9]
    assert np.all(np.diff(split_examples(100, 0.5, True).train) > 0)


@pytest.mark.parametrize(("count", "prop"), [(5, 1.0), (5, 0.0), (1, 0.5), (3, 0.01)])
def test_an_empty_part_is_refused(count: int, prop: float) -> None:
    with pytest.raises(BadInput, match="train_prop"):
        split_examples(count, prop, True)
