"""A path written by `join` and `at` names one place and no other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from samovar.config.values import at, covers, join, split

parts = st.lists(st.one_of(st.text(max_size=6), st.sampled_from(["a.b", "a[0]", '"', "\\", "*"]), st.integers(0, 99)))


@given(parts)
def test_splitting_a_path_gives_back_the_parts_it_was_joined_from(parts: list[str | int]) -> None:
    path = ""
    for part in parts:
        path = at(path, part) if isinstance(part, int) else join(path, part)
    assert split(path) == parts


def test_plain_keys_are_dotted_and_keys_that_look_like_paths_are_quoted() -> None:
    assert join(join("", "train_data"), "lr") == "train_data.lr"
    assert join(at("evaluation.eval_confs", 0), "name") == "evaluation.eval_confs[0].name"
    assert join("policies", "emb.lr") == 'policies["emb.lr"]'


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("model", "model"),
        ("model", "model.lr"),
        ("eval_confs", "eval_confs[0].name"),
        ("*.num_parsers", "num_parsers"),
        ("*.num_parsers", "evaluation.eval_confs[1].num_parsers"),
        ("*.limits", "brew.limits.memory"),
    ],
)
def test_a_pattern_covers_its_place_and_all_inside(pattern: str, path: str) -> None:
    assert covers(pattern, path)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("model", "model_dir"),
        ("model.lr", "model"),
        ("*.num_parsers", "max_num_parsers"),
        ("*.x", 'model["a.x.b"]'),
        ("a.b", '["a.b"]'),
    ],
)
def test_a_pattern_covers_nothing_else(pattern: str, path: str) -> None:
    assert not covers(pattern, path)
