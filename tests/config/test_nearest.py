"""The one "did you mean"."""

import pytest

from samovar.config.values import nearest

KEYS = ["epoch_count", "max_iter", "num_parsers", "lr"]


@pytest.mark.parametrize(
    ("name", "best"),
    [("epoch_cuont", "epoch_count"), ("epochs", "epoch_count"), ("LR", "lr"), ("maxIter", "max_iter")],
)
def test_a_typo_finds_the_key_that_was_meant(name: str, best: str) -> None:
    assert nearest(name, KEYS) == best


def test_a_name_like_none_of_the_keys_finds_nothing() -> None:
    assert nearest("dropout", KEYS) is None
    assert nearest("l2", KEYS) is None
    assert nearest("lr", []) is None


def test_the_answer_does_not_depend_on_the_order_of_the_candidates() -> None:
    assert nearest("lrx", ["lra", "lrb"]) == nearest("lrx", ["lrb", "lra"])
    assert nearest("lr", ["LR", "lR"]) == nearest("lr", ["lR", "LR"])
