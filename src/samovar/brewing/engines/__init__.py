"""Engines sort the rows of a source: base.py is the seam, then one module per engine. They know no converters, no
minibatches and no tensor tables."""

from samovar.brewing.engines.base import Engine, Query, find_engine

__all__ = ["Engine", "Query", "find_engine"]
