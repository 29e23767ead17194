"""The examples in docstrings run."""

import doctest

import pytest

from samovar import nets


@pytest.mark.parametrize("name", nets.__all__)
def test_the_example_of_a_public_name_runs(name: str) -> None:
    names = {each: getattr(nets, each) for each in nets.__all__}
    found = doctest.DocTestFinder().find(getattr(nets, name), name, globs=names)
    examples = [each for each in found if each.examples]
    assert examples
    for each in examples:
        assert doctest.DocTestRunner().run(each).failed == 0
