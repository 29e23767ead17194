"""A tensor table, or one of its minibatches, as `samovar table --json` tells it. Prints nothing."""

from collections import Counter
from typing import TYPE_CHECKING, Any

from samovar.hours import show_hour

if TYPE_CHECKING:
    from samovar.tables import Table


def describe_table(table: "Table") -> dict[str, Any]:
    sizes = sum_column_bytes(table)
    return {
        "table": table.name,
        "id": table.id,
        "version": table.version,
        "versions": table.versions,
        "compression": table.compression,
        "minibatches": table.num_minibatches,
        "examples": table.num_examples,
        "hours": [show_hour(hour) for hour in table.hours if hour is not None],
        "complete_until": None if table.complete_until is None else show_hour(table.complete_until),
        "columns": [
            {
                "name": column.name,
                "kind": column.kind,
                "rank": column.rank,
                "source_type": column.source_type,
                "bytes": sizes[column.name],
            }
            for column in table.schema.columns
        ],
        "batch_sizes": dict(sorted(table.batch_sizes().items())),
    }


def sum_column_bytes(table: "Table") -> Counter[str]:
    sizes: Counter[str] = Counter()
    for manifest in table.manifests:
        sizes.update(manifest.segment.column_bytes)
    return sizes


def describe_minibatch(table: "Table", row: int) -> dict[str, Any]:
    """Whole, with ids as unsigned numbers."""
    record = next(table.read(start=row, stop=row + 1))
    hour = None if record.hour is None else show_hour(record.hour)
    values = {name: _describe(value) for name, value in record.items()}
    return {"row": row, "hour": hour, "examples": record.num_examples, "columns": values}


def _describe(value: Any) -> Any:
    import torch

    from samovar.tables import Bag

    if isinstance(value, Bag):
        return {"data": [number % 2**64 for number in value.data.tolist()], "data_len": value.data_len.tolist()}
    return value.tolist() if isinstance(value, torch.Tensor) else value.to_pylist()
