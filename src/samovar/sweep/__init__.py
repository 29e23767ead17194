"""Many configs from one: a grid, a list or random samples of changes, run through the queue, collected in one table."""

from samovar.sweep.experiment import Done, Show, run_experiment
from samovar.sweep.table import Row, Table

__all__ = ["Done", "Row", "Show", "Table", "run_experiment"]
