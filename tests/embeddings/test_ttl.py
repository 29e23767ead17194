"""The ttl of embedding rows: when they expire, what comes back, what is freed, and that sweeps change no result."""

import numpy as np
import pytest
import torch

from samovar.embeddings import HashAdagrad, HashAdam, HashEmbedding, HashSGD
from samovar.embeddings.reference import make_weights, seed_of_table
from samovar.errors import BadInput
from samovar.tables import Bag


def make_bag(*ids: int) -> Bag:
    return Bag(torch.tensor(ids, dtype=torch.int64), torch.tensor([len(ids)], dtype=torch.int32))


def make_table(ttl: int | None, dim: int = 2) -> tuple[HashEmbedding, HashAdagrad]:
    module = HashEmbedding({"a": dim})
    return module, HashAdagrad(module, 0.5, ttl)


def train(module: HashEmbedding, optimizer: HashAdagrad | HashAdam | HashSGD, *ids: int) -> None:
    module({"a": make_bag(*ids)})["a"].sum().backward()
    optimizer.step()


def advance(module: HashEmbedding, num_ticks: int) -> None:
    for _ in range(num_ticks):
        module.advance_clock()


def read(module: HashEmbedding, number: int) -> list[float]:
    with torch.no_grad():
        return module({"a": make_bag(number)})["a"][0].tolist()  # type: ignore[no-any-return]  # torch gives it no types


def new_weights(number: int, dim: int = 2) -> list[float]:
    made = make_weights(np.array([number], np.uint64), dim, seed_of_table(0, "a"), 0.01)
    return made[0].tolist()  # type: ignore[no-any-return]  # numpy types a line as Any


def stored(module: HashEmbedding, number: int) -> tuple[list[float], int, bool]:
    """[weights | state], stamp, and whether it is in memory, expired or not."""
    rows, stamps, found = module.get("a", np.array([number], np.uint64))
    return rows[0].tolist(), int(stamps[0]), bool(found[0])


def test_the_clock_starts_at_zero_and_only_the_caller_advances_it() -> None:
    module, optimizer = make_table(ttl=1)
    assert module.clock == 0
    train(module, optimizer, 1)
    module.sweep()
    assert module.clock == 0
    advance(module, 3)
    assert module.clock == 3


@pytest.mark.parametrize("ttl", [0, 1, 2, 7])
def test_a_row_lives_for_ttl_ticks_and_is_gone_at_the_next(ttl: int) -> None:
    module, optimizer = make_table(ttl)
    advance(module, 4)
    train(module, optimizer, 1)
    trained = read(module, 1)
    assert trained not in ([0, 0], new_weights(1))
    advance(module, ttl)
    assert read(module, 1) == trained
    assert module.sweep() == 0
    assert stored(module, 1)[1:] == (4, True)
    advance(module, 1)
    assert read(module, 1) == [0, 0]
    assert module.count_live() == {"a": 0}
    assert stored(module, 1)[2]  # until the sweep
    assert module.counters()["a"].rows == 1
    assert module.sweep() == 1
    assert not stored(module, 1)[2]
    assert module.counters()["a"].rows == 0


def test_without_a_ttl_a_row_never_expires() -> None:
    module, optimizer = make_table(None)
    train(module, optimizer, 1)
    trained = read(module, 1)
    advance(module, 1000)
    assert module.sweep() == 0
    assert read(module, 1) == trained


def test_each_use_in_training_restarts_the_ttl_and_a_frozen_lookup_does_not() -> None:
    module, optimizer = make_table(ttl=1)
    for _ in range(5):
        train(module, optimizer, 1)
        advance(module, 1)
        read(module, 1)
    assert stored(module, 1)[1:] == (4, True)
    assert module.counters()["a"].reset == 0
    advance(module, 1)
    read(module, 1)
    assert read(module, 1) == [0, 0]


def test_a_lookup_without_backward_is_a_use() -> None:
    module, optimizer = make_table(ttl=1)
    train(module, optimizer, 1)
    advance(module, 1)
    module({"a": make_bag(1)})
    optimizer.step()
    advance(module, 1)
    assert stored(module, 1)[1:] == (1, True)


@pytest.mark.parametrize("is_swept", [False, True])
def test_an_expired_row_comes_back_like_a_new_one_in_weights_and_state(is_swept: bool) -> None:
    module, optimizer = make_table(ttl=2)
    train(module, optimizer, 1, 1, 1)
    assert stored(module, 1)[0] != [*new_weights(1), 0, 0]
    advance(module, 3)
    if is_swept:
        assert module.sweep() == 1
    out = module({"a": make_bag(1)})["a"]
    assert out[0].tolist() == new_weights(1)
    assert stored(module, 1) == ([*new_weights(1), 0, 0], 3, True)
    counters = module.counters()["a"]
    assert (counters.inserted, counters.reset, counters.freed) == ((2, 0, 1) if is_swept else (1, 1, 0))


def test_the_steps_of_adam_restart_after_a_reset() -> None:
    module = HashEmbedding({"a": 1})
    optimizer = HashAdam(module, 0.5, ttl=0)
    train(module, optimizer, 1)
    train(module, optimizer, 1)
    assert stored(module, 1)[0][-1] == 2
    advance(module, 1)
    train(module, optimizer, 1)
    assert stored(module, 1)[0][-1] == 1


def test_an_expired_row_is_reset_once_in_a_call_and_updated_once_in_a_step() -> None:
    module, optimizer = make_table(ttl=0)
    train(module, optimizer, 1)
    once = stored(module, 1)[0]
    advance(module, 1)
    train(module, optimizer, 1)
    assert stored(module, 1) == (once, 1, True)
    assert module.counters()["a"].reset == 1
    advance(module, 1)
    first = module({"a": make_bag(1, 1)})["a"]
    second = module({"a": make_bag(1)})["a"]
    assert module.counters()["a"].reset == 2
    (first.sum() + second.sum()).backward()
    optimizer.step()
    assert stored(module, 1)[0][2:] == [9, 9]


def test_the_rows_of_a_table_expire_one_by_one() -> None:
    module, optimizer = make_table(ttl=2)
    for number in range(10):
        train(module, optimizer, number)
        advance(module, 1)
    assert module.count_live() == {"a": 2}  # clock 10, stamps 8 and 9
    assert [read(module, number) != [0, 0] for number in range(10)] == [False] * 8 + [True] * 2
    assert module.sweep() == 8
    assert [stored(module, number)[2] for number in range(10)] == [False] * 8 + [True] * 2
    assert module.sweep() == 0
    counters = module.counters()["a"]
    assert (counters.rows, counters.inserted, counters.reset, counters.freed) == (2, 10, 0, 8)


def test_tables_of_two_optimizers_have_their_own_ttl() -> None:
    short, long = HashEmbedding({"a": 1}), HashEmbedding({"a": 1})
    optimizers = HashSGD(short, 1.0, ttl=1), HashSGD(long, 1.0, ttl=3)
    for module, optimizer in zip((short, long), optimizers, strict=True):
        train(module, optimizer, 5)
        advance(module, 2)
    assert (short.sweep(), long.sweep()) == (1, 0)


def test_freed_memory_is_reused() -> None:
    module, optimizer = make_table(ttl=0, dim=8)
    sizes = []
    for cycle in range(6):
        ids = torch.arange(50_000) + 50_000 * cycle
        module({"a": Bag(ids, torch.ones(len(ids), dtype=torch.int32))})["a"].sum().backward()
        optimizer.step()
        sizes.append(module.counters()["a"].bytes)
        advance(module, 1)
        assert module.sweep() == 50_000
        assert module.counters()["a"].rows == 0
    assert sizes[0] >= 50_000 * 8 * 2 * 4
    assert max(sizes) <= 1.1 * sizes[0]


def test_rows_in_freed_memory_are_new_and_their_neighbours_unharmed() -> None:
    module, optimizer = make_table(ttl=1)
    for number in range(1000):
        train(module, optimizer, number)
    advance(module, 1)
    kept = list(range(0, 1000, 3))
    train(module, optimizer, *kept)
    before = {number: stored(module, number) for number in kept}
    advance(module, 1)
    assert module.sweep() == 1000 - len(kept)
    fresh = list(range(5000, 5600))
    module({"a": make_bag(*fresh)})
    assert all(stored(module, number) == ([*new_weights(number), 0, 0], 2, True) for number in fresh)
    assert {number: stored(module, number) for number in kept} == before


def test_the_slices_of_a_sweep_free_together_what_one_sweep_frees() -> None:
    freed = []
    for is_sliced in (False, True):
        module, optimizer = make_table(ttl=0)
        train(module, optimizer, *range(500))
        advance(module, 1)
        train(module, optimizer, *range(100))
        freed.append(sum(module.sweep(shard) for shard in range(8)) if is_sliced else module.sweep())
        assert [stored(module, number)[2] for number in range(500)] == [True] * 100 + [False] * 400
    assert freed == [400, 400]


def test_a_row_that_was_freed_before_its_step_is_not_written() -> None:
    module, optimizer = make_table(ttl=0)
    output = module({"a": make_bag(1, 2)})["a"]
    output.sum().backward()
    advance(module, 1)
    assert module.sweep() == 2
    module({"a": make_bag(3, 4)})  # these may be in the memory of 1 and 2
    with pytest.raises(BadInput, match="sweep"):
        optimizer.step()
    optimizer.step()
    assert [stored(module, number)[2] for number in (1, 2)] == [False, False]
    assert [stored(module, number)[0][:2] for number in (3, 4)] == [new_weights(3), new_weights(4)]


def run_with_sweeps(every: int | None, ttl: int) -> tuple[list[bytes], bytes, int, int]:
    """Outputs of every step, the table at the end, inserted + reset, live rows."""
    module = HashEmbedding({"a": 3})
    optimizer = HashAdam(module, 0.1, ttl)
    rng = np.random.default_rng(0)
    outputs = []
    for step in range(60):
        lengths = rng.integers(0, 4, 50, np.int32)
        ids = rng.integers(0, 400, lengths.sum()) + step * 5
        output = module({"a": Bag(torch.from_numpy(ids), torch.from_numpy(lengths))})["a"]
        outputs.append(output.detach().numpy().tobytes())
        (output * output).sum().backward()
        optimizer.step()
        if step % 2:
            module.advance_clock()
        if every is not None and step % every == 0:
            module.sweep()
        with torch.no_grad():
            ids = rng.integers(0, 700, 20)
            frozen = module({"a": Bag(torch.from_numpy(ids), torch.ones(20, dtype=torch.int32))})["a"]
            outputs.append(frozen.numpy().tobytes())
    counters = module.counters()["a"]
    module.sweep()  # even the last sweep leaves the same rows
    rows, stamps, found = module.get("a", np.arange(1000, dtype=np.uint64))
    table = rows[found].tobytes() + stamps[found].tobytes() + found.tobytes()
    assert counters.rows == counters.inserted - counters.freed
    return outputs, table, counters.inserted + counters.reset, module.count_live()["a"]


@pytest.mark.parametrize("ttl", [0, 1, 5])
@pytest.mark.parametrize("every", [1, 3, 17])
def test_how_often_it_is_swept_changes_no_bit(every: int, ttl: int) -> None:
    assert run_with_sweeps(every, ttl) == run_with_sweeps(None, ttl)


def test_misses_are_counted_once_for_each_id_and_call() -> None:
    module, optimizer = make_table(ttl=0)
    train(module, optimizer, 1, 2)
    with torch.no_grad():
        module({"a": make_bag(1, 3, 3, 4)})
        assert module.counters()["a"].missed == 2
        module({"a": make_bag(3)})
        advance(module, 1)
        module({"a": make_bag(1, 1)})
    assert module.counters()["a"].missed == 4
