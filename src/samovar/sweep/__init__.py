"""Many configs from one: grid, list or random samples of changes, done through the queue, collected in one table."""

from samovar.sweep.experiment import Done, Request, run_experiment

__all__ = ["Done", "Request", "run_experiment"]
