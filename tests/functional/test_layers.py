import pytest
import torch
from torch.nn import functional

from samovar.errors import BadInput
from samovar.functional.layers import PyramidPooling


def test_one_level_is_global_pooling() -> None:
    x = torch.rand(2, 3, 5, 7)
    assert torch.equal(PyramidPooling(functional.max_pool2d)(x), x.amax((2, 3)))


@pytest.mark.parametrize(("pool", "shape"), [(functional.max_pool2d, (9, 6)), (functional.avg_pool3d, (4, 5, 8))])
def test_the_number_of_features_does_not_depend_on_the_size_of_the_input(pool: object, shape: tuple[int, ...]) -> None:
    layer = PyramidPooling(pool, levels=3)  # type: ignore[arg-type]  # a function of torch
    expected = 3 * sum((2 ** len(shape)) ** level for level in range(3))
    assert layer(torch.rand(2, 3, *shape)).shape == (2, expected)


def test_an_input_that_is_too_small_is_refused() -> None:
    with pytest.raises(BadInput, match="at least 4"):
        PyramidPooling(functional.max_pool2d, levels=3)(torch.rand(1, 1, 3, 3))
