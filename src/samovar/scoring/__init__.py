"""Predictions as files, and how good they are. Runs no models and no loop."""
