"""One minibatch on its way into a model. Knows no tables."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from samovar.tables.record import RecordValue


@dataclass(frozen=True)
class MinibatchRecord:
    """What a model gets, what its loss gets, and the keys by which predictions are found again."""

    inputs: Mapping[str, RecordValue]
    targets: Mapping[str, RecordValue] = field(default_factory=dict)
    keys: Mapping[str, RecordValue] = field(default_factory=dict)
    num_examples: int = 0
    row: int = 0
    """Its number in the table."""
    hour: int | None = None
    """Start of its hour, seconds since 1970 UTC; None in an offline table."""
