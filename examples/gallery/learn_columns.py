"""What table_net.py must know before it trains: how each column of a table becomes an input, and what the target is.

python learn_columns.py adult/train income_above_50k     writes adult/columns and adult/task.json
"""

import argparse
import json
from pathlib import Path

import numpy as np

import samovar
from samovar.nets import TablePreprocessor, TabularTask

MOST_CLASSES = 100


def learn_columns(table_path: Path, target: str) -> None:
    """Read a table twice, and write both files beside it."""
    table = samovar.open_table(table_path)
    inputs = [name for name in table.columns if name != target]
    TablePreprocessor().fit(table.select(inputs)).save(table_path.with_name("columns"))
    values = np.concatenate([record[target] for record in table.read([target])])
    are_classes = len(np.unique(values)) <= MOST_CLASSES and bool((values % 1 == 0).all())
    task = TabularTask.fit(values, "classification" if are_classes else "regression")
    known = {"task": task.state_dict(), "steps_per_epoch": len(table)}
    table_path.with_name("task.json").write_text(json.dumps(known, indent=2))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("table", type=Path)
    parser.add_argument("target")
    given = parser.parse_args()
    learn_columns(given.table, given.target)
