"""What a net has to know about its inputs. Knows no rows and no nets."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class TabularInputs:
    """The inputs of a `TabularNet`: how many numbers, with which bins, and how many categories, with how many codes.

    `TablePreprocessor.inputs` makes it; or give your own for numbers that you scaled yourself.

    Attributes:
        edges: For each number, the ascending edges of its bins: at least two.
        category_sizes: For each category, how many codes it has; code 0 is unknown.

    Example:
        >>> import numpy as np
        >>> inputs = TabularInputs(edges=[np.array([-1.0, 0.0, 1.0])], category_sizes=[12, 3])
        >>> net = TabularNet(inputs, num_outputs=1)
    """

    edges: Sequence[NDArray[np.floating]] = ()
    category_sizes: Sequence[int] = ()
