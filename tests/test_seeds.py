"""Seeds: what is derived never changes, state is restored exactly, and no other module makes randomness."""

import ast
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from samovar import seeds
from samovar.errors import BadInput

PACKAGE = Path(__file__).parents[1] / "src/samovar"
words = st.integers(-(2**63), 2**64 - 1)


@pytest.fixture(autouse=True)
def _keep_the_global_generators() -> Iterator[None]:
    state = seeds.global_state()
    yield
    seeds.set_global_state(state)


def draws() -> list[Any]:
    return [
        random.random(),
        random.gauss(0, 1),
        np.random.rand(3).tolist(),
        np.random.randn(),
        torch.rand(3).tolist(),
    ]


def test_derived_seeds_never_change() -> None:
    assert seeds.derive(0, "shuffle") == 0x2AD1D778C87C9714
    assert seeds.derive(0, "shuffle", 0) == 0xF338A6E45BA8E22C
    assert seeds.derive(-1, "самовар", 2**64 - 1, -(2**63)) == 0x58D65F57882BFA33


@given(words, st.text(), st.lists(words, max_size=3))
def test_a_derived_seed_is_a_chain_of_hashes(seed: int, purpose: str, indices: list[int]) -> None:
    h = xxhash.xxh64_intdigest(purpose.encode(), seed % 2**64)
    for index in indices:
        h = xxhash.xxh64_intdigest((index % 2**64).to_bytes(8, "little"), h)
    assert seeds.derive(seed, purpose, *indices) == h


def test_seeds_differ_by_seed_purpose_and_every_index() -> None:
    derive = seeds.derive
    derived = {derive(0, "a"), derive(1, "a"), derive(0, "b"), derive(0, "a", 0), derive(0, "a", 1)}
    assert len(derived | {derive(0, "a", 0, 1), derive(0, "a", 1, 0)}) == 7


def test_a_number_that_64_bits_cannot_hold_is_refused() -> None:
    for number in (2**64, -(2**63) - 1):
        with pytest.raises(BadInput, match="64-bit word"):
            seeds.derive(number, "a")
        with pytest.raises(BadInput, match="64-bit word"):
            seeds.derive(0, "a", number)
        with pytest.raises(BadInput, match="64-bit word"):
            seeds.set_seed(number)


def test_generators_depend_on_their_place_alone() -> None:
    first = seeds.numpy_generator(7, "split", 3).integers(2**63, size=4)
    assert np.array_equal(seeds.numpy_generator(7, "split", 3).integers(2**63, size=4), first)
    assert not np.array_equal(seeds.numpy_generator(7, "split", 4).integers(2**63, size=4), first)
    tensor = torch.rand(4, generator=seeds.torch_generator(7, "split", 3))
    assert torch.equal(torch.rand(4, generator=seeds.torch_generator(7, "split", 3)), tensor)
    assert not torch.equal(torch.rand(4, generator=seeds.torch_generator(8, "split", 3)), tensor)


def test_generators_give_golden_numbers() -> None:
    assert seeds.numpy_generator(0, "golden").integers(2**63, size=2).tolist() == [
        2832416714967507508,
        3423998545326378467,
    ]
    generator = seeds.torch_generator(0, "golden")
    assert torch.randint(2**40, (2,), generator=generator).tolist() == [1051002388713, 538460745452]


def test_making_a_generator_leaves_the_global_ones_alone() -> None:
    seeds.set_seed(1)
    expected = draws()
    seeds.set_seed(1)
    seeds.numpy_generator(0, "a")
    seeds.torch_generator(0, "a")
    assert draws() == expected


@pytest.mark.parametrize("seed", [0, 1, -1, 2**32, 2**64 - 1])
def test_a_seed_fixes_every_global_generator(seed: int) -> None:
    seeds.set_seed(seed)
    first = draws()
    assert all(a != b for a, b in zip(draws(), first, strict=True))
    seeds.set_seed(seed)
    assert draws() == first


def test_a_seed_means_what_the_libraries_mean_by_it() -> None:
    seeds.set_seed(5)
    found = draws()
    random.seed(5)
    np.random.seed(5)
    torch.manual_seed(5)
    assert draws() == found


@given(st.integers(0, 3))
def test_the_global_state_is_restored_exactly(num_drawn: int) -> None:
    seeds.set_seed(9)
    for _ in range(num_drawn):
        random.gauss(0, 1)  # every other call leaves a second number behind
        np.random.randn()
        torch.randn(1)
    state = seeds.global_state()
    expected = [draws(), draws()]
    seeds.set_global_state(state)
    assert [draws(), draws()] == expected


def test_the_global_state_is_plain_values_arrays_and_tensors() -> None:
    def leaves(node: Any) -> Iterator[Any]:
        if isinstance(node, dict):
            assert all(type(key) is str for key in node)
            node = list(node.values())
        if type(node) in (list, tuple):
            for child in node:
                yield from leaves(child)
        else:
            yield node

    random.gauss(0, 1)
    kinds = {type(leaf) for leaf in leaves(seeds.global_state())}
    assert kinds <= {int, float, str, type(None), np.ndarray, torch.Tensor}


def test_a_state_of_other_parts_is_refused() -> None:
    state = seeds.global_state()
    with pytest.raises(BadInput, match="must have the parts python, numpy and torch"):
        seeds.set_global_state({"python": state["python"]})


def test_a_state_of_more_cuda_devices_is_refused_and_changes_nothing() -> None:
    state = seeds.global_state()
    expected = draws()
    seeds.set_global_state(state)
    other = {**state, "torch": {**state["torch"], "cuda": [torch.zeros(16, dtype=torch.uint8)] * 99}}
    with pytest.raises(BadInput, match="99 CUDA devices"):
        seeds.set_global_state(other)
    assert draws() == expected


def test_without_torch_the_state_has_no_torch_part() -> None:
    program = """if True:
        import random, sys
        from samovar import seeds
        state = seeds.global_state()
        assert state["torch"] is None and "torch" not in sys.modules
        first = random.random()
        seeds.set_global_state(state)
        assert random.random() == first and "torch" not in sys.modules
    """
    subprocess.run([sys.executable, "-c", program], check=True)


def dotted(node: ast.AST) -> str:
    match node:
        case ast.Attribute(value=value, attr=attr):
            return f"{dotted(value)}.{attr}"
        case ast.Name(id=name):
            return name
    return ""


TYPES = {"random.Random", "np.random.Generator", "numpy.random.Generator", "torch.Generator"}
SOURCES = {"random", "np.random", "numpy.random", "torch.random"}
MAKERS = {"manual_seed", "seed", "Generator", "default_generator", "get_rng_state", "set_rng_state"}


def is_random(name: str) -> bool:
    owner, _, rest = name.partition(".")
    is_maker = owner == "torch" and (rest in MAKERS or ".manual_seed" in name or "_rng_state" in name)
    return is_maker or any(name == source or name.startswith(source + ".") for source in SOURCES)


def randomness_in(tree: ast.Module) -> set[str]:
    """What makes or touches generators; the type of one that is passed in may be named, but not called."""
    nodes = list(ast.walk(tree))
    called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
    inner = {id(node.value) for node in nodes if isinstance(node, ast.Attribute)}
    modules = [alias for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    has_random = any(alias.name == "random" for alias in modules)  # else the name is somebody's variable
    found = {m.name for m in modules if is_random(m.name) and (m.name != "random" or m.asname)}
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            found |= {full for alias in node.names if is_random(full := f"{node.module}.{alias.name}")}
        if isinstance(node, ast.Attribute | ast.Name) and id(node) not in inner:
            name = dotted(node)
            is_type = name in TYPES and id(node) not in called
            if is_random(name) and not is_type and (has_random or not name.startswith("random")):
                found.add(name)
    return found


def test_only_this_module_makes_randomness() -> None:
    guilty = {
        str(path.relative_to(PACKAGE)): names
        for path in PACKAGE.rglob("*.py")
        if (names := randomness_in(ast.parse(path.read_text())))
    }
    assert guilty.keys() == {"seeds.py"}, guilty


def test_a_block_draws_as_after_set_seed_and_leaves_no_trace() -> None:
    def draw() -> tuple[float, float, float]:
        return random.random(), float(np.random.random()), float(torch.rand(1))

    seeds.set_seed(7)
    expected = draw()
    seeds.set_seed(1)
    before = draw()
    seeds.set_seed(1)
    with seeds.seeded(7):
        assert draw() == expected
    with pytest.raises(ZeroDivisionError), seeds.seeded(7):
        raise ZeroDivisionError
    assert draw() == before


@pytest.mark.parametrize(
    "line",
    [
        "import random; random.random()",
        "import random; chance = random",
        "import random; chance = random.Random(0)",
        "import random as chance",
        "from random import shuffle",
        "from numpy import random",
        "from numpy.random import default_rng",
        "from torch import Generator",
        "import numpy as np; np.random.default_rng()",
        "import numpy; x = numpy.random.Generator(bits)",
        "import torch; torch.manual_seed(0)",
        "import torch; g = torch.Generator()",
        "import torch; torch.cuda.manual_seed_all(0)",
        "import torch; torch.random.fork_rng()",
    ],
)
def test_randomness_is_recognised(line: str) -> None:
    assert randomness_in(ast.parse(line))


@pytest.mark.parametrize(
    "line",
    [
        "import random\ndef draw(a: random.Random): return a.random()",
        "def draw(a: np.random.Generator, b: torch.Generator): return a.random()",
        "random = 3; print(random)",
        "torch.randn(3, generator=generator)",
    ],
)
def test_drawing_from_a_generator_that_was_passed_in_is_allowed(line: str) -> None:
    assert not randomness_in(ast.parse(line))
