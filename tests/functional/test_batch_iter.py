"""Batch iterators: the same items for the same (seed, epoch), wherever they are made."""

from typing import Any

import numpy as np
import pytest

from samovar.errors import BadInput
from samovar.functional.batch_iter import (
    Infinite,
    Processes,
    Threads,
    apply_at,
    as_batch_iter,
    load_by_random_id,
    multiply,
    sample,
    unpack_args,
)


def add_noise(parts: tuple[Any, Any], random: np.random.Generator) -> tuple[Any, Any]:
    return parts[0] + random.normal(), parts[1]


def double(parts: tuple[Any, Any]) -> tuple[Any, Any]:
    return parts[0] * 2, parts[1]


def read(batch_iter: Infinite, epoch: int = 0) -> list[list[list[Any]]]:
    return [[part.tolist() for part in batch] for batch in batch_iter.open(7, epoch)]


def make(*transforms: Any, **options: Any) -> Infinite:
    source = load_by_random_id(float, lambda i: -i, ids=range(100))
    return Infinite(source, *transforms, batch_size=3, n_iters_per_epoch=4, **options)


def test_an_epoch_has_its_batches_and_another_epoch_has_others() -> None:
    batches = read(make())
    assert [[len(part) for part in batch] for batch in batches] == [[3, 3]] * 4
    assert all(first == -second for batch in batches for first, second in zip(*batch, strict=True))
    assert read(make()) == batches
    assert read(make(), epoch=1) != batches


@pytest.mark.parametrize(("wrap", "buffer_size"), [(Threads, 0), (Threads, 3), (Processes, 1), (lambda f: f, 0)])
def test_where_a_transform_runs_changes_nothing(wrap: Any, buffer_size: int) -> None:
    assert read(make(wrap(add_noise), double, buffer_size=buffer_size)) == read(make(add_noise, double))


def test_reading_may_end_in_the_middle() -> None:
    batches = make(Threads(double)).open(0, 0)
    next(batches)
    batches.close()


def test_an_error_of_a_loader_names_the_id() -> None:
    def fail(item: int) -> int:
        raise OSError("no file")

    with pytest.raises(OSError, match="no file") as caught:
        read(Infinite(load_by_random_id(fail, ids=[5]), batch_size=1, n_iters_per_epoch=1))
    assert "while loading the item of id 5" in caught.value.__notes__


def test_weights_choose_what_is_drawn() -> None:
    batch_iter = Infinite(sample("abc", weights=[0, 1, 0]), batch_size=5, n_iters_per_epoch=1)
    assert read(batch_iter) == [[["b"] * 5]]
    with pytest.raises(BadInput, match="2 weights for 3 elements"):
        sample("abc", weights=[1, 2])
    with pytest.raises(BadInput, match="empty"):
        sample([])


def test_functions_of_parts() -> None:
    assert unpack_args(max)([1, 5, 2]) == 5
    assert multiply(abs)([-1, -2]) == (1, 2)
    assert apply_at(1, abs)([-1, -2]) == (-1, 2)


def test_what_cannot_be_read_again_is_refused() -> None:
    with pytest.raises(BadInput, match="an iterator cannot go on"):
        Infinite(iter([1]), batch_size=1, n_iters_per_epoch=1)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(BadInput, match="generator"):
        as_batch_iter(x for x in [1])
    assert list(as_batch_iter([1, 2]).open(0, 0)) == [1, 2]
    for options, message in (
        ({"batch_size": 0}, "batch_size is 0"),
        ({"batch_size": "a"}, "batch_size is 'a'; expected a whole number, at least 1"),
        ({"n_iters_per_epoch": 1.5}, r"n_iters_per_epoch is 1\.5"),
        ({"buffer_size": -1}, "buffer_size is -1; expected a whole number, at least 0"),
    ):
        with pytest.raises(BadInput, match=message):
            Infinite(sample("a"), **{"batch_size": 1, "n_iters_per_epoch": 1, **options})  # type: ignore[arg-type]  # the same
    assert Infinite(sample("a"), batch_size=np.int64(2), n_iters_per_epoch=1).num_batches == 1  # type: ignore[arg-type]  # works


def test_items_of_several_shapes_are_refused_with_the_cure() -> None:
    ragged = Infinite(sample([[1], [1, 2]]), batch_size=20, n_iters_per_epoch=1, combiner=None)
    with pytest.raises((BadInput, ValueError)):
        read(ragged)
