"""Batch iterators give the same items for the same (seed, epoch), wherever they are made."""

import itertools
import threading
import time
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


def test_each_epoch_has_its_own_batches() -> None:
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
    with pytest.raises(BadInput, match="one weight per element, got 2 for 3"):
        sample("abc", weights=[1, 2])
    with pytest.raises(BadInput, match="empty"):
        sample([])


def test_transforms_of_tuples() -> None:
    assert unpack_args(max)([1, 5, 2]) == 5
    assert multiply(abs)([-1, -2]) == (1, 2)
    assert apply_at(1, abs)([-1, -2]) == (-1, 2)


def test_iterators_and_wrong_counts_are_refused() -> None:
    with pytest.raises(BadInput, match="An iterator cannot be resumed"):
        Infinite(iter([1]), batch_size=1, n_iters_per_epoch=1)  # type: ignore[arg-type]  # that is the mistake
    with pytest.raises(BadInput, match="generator"):
        as_batch_iter(x for x in [1])
    assert list(as_batch_iter([1, 2]).open(0, 0)) == [1, 2]
    for options, message in (
        ({"batch_size": 0}, "batch_size must be an integer of at least 1, got 0"),
        ({"batch_size": "a"}, "batch_size must be an integer of at least 1, got 'a'"),
        ({"n_iters_per_epoch": 1.5}, r"n_iters_per_epoch must be an integer of at least 1, got 1\.5"),
        ({"buffer_size": -1}, "buffer_size must be an integer of at least 0, got -1"),
    ):
        with pytest.raises(BadInput, match=message):
            Infinite(sample("a"), **{"batch_size": 1, "n_iters_per_epoch": 1, **options})  # type: ignore[arg-type]  # the same
    assert Infinite(sample("a"), batch_size=np.int64(2), n_iters_per_epoch=1).num_batches == 1  # type: ignore[arg-type]  # works


def test_items_of_different_shapes_are_refused() -> None:
    ragged = Infinite(sample([(np.zeros(1),), (np.zeros(2),)]), batch_size=20, n_iters_per_epoch=1)
    with pytest.raises(BadInput, match=r"cannot be joined into a minibatch: .*Crop or pad them"):
        read(ragged)


class SlowCalls:
    """A function that takes its time, and knows how many of its calls are under way."""

    def __init__(self) -> None:
        self.num_started = self.num_ended = 0
        self.has_started = threading.Event()
        self._lock = threading.Lock()

    def __call__(self, value: Any) -> Any:
        with self._lock:
            self.num_started += 1
        self.has_started.set()
        time.sleep(0.1)
        with self._lock:
            self.num_ended += 1
        return value


@pytest.mark.parametrize(("wrap", "buffer_size"), [(lambda f: f, 2), (Threads, 0), (Threads, 2)])
def test_an_epoch_that_is_closed_early_leaves_no_call_under_way(wrap: Any, buffer_size: int) -> None:
    slow = SlowCalls()
    before = set(threading.enumerate())
    batches = make(wrap(slow), buffer_size=buffer_size).open(0, 0)
    next(batches)
    batches.close()
    assert slow.num_started == slow.num_ended
    assert set(threading.enumerate()) <= before  # no thread is left that could start another call


def test_a_transform_that_fails_leaves_no_other_call_under_way() -> None:
    slow = SlowCalls()

    def fail_once_another_runs(parts: Any) -> Any:
        if slow.has_started.is_set():
            raise OSError("no file")
        return slow(parts)

    with pytest.raises(OSError, match="no file"):
        read(make(Threads(fail_once_another_runs), buffer_size=1))
    assert slow.num_started == slow.num_ended


@pytest.mark.parametrize("buffer_size", [0, 2])
def test_an_epoch_that_is_collected_on_a_worker_thread_does_not_wait_for_itself(buffer_size: int) -> None:
    opened: list[Any] = []
    numbers = itertools.count()
    may_drop, is_dropped = threading.Event(), threading.Event()

    def drop_after_first_batch(value: Any) -> Any:
        if next(numbers) >= 3:
            may_drop.wait(10)
            opened.clear()  # the last reference: the epoch is closed here, as the garbage collector may do
            is_dropped.set()
        return value

    opened.append(make(Threads(drop_after_first_batch), buffer_size=buffer_size).open(0, 0))
    next(opened[0])
    may_drop.set()
    assert is_dropped.wait(10)
