"""Many configs from one: a grid, a list or random samples of changes, run through the queue, collected in one table."""

from samovar.sweep.experiment import Done, Request, run_experiment

__all__ = ["Done", "Request", "run_experiment"]
