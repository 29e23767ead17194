"""Engines bring functions to the files of a source and to its sorted rows: base.py is the seam, then one module per
engine. They know no converters, no minibatches and no tensor tables."""

from samovar.brewing.engines.base import Engine, LocalEngine, Query, find_engine

__all__ = ["Engine", "LocalEngine", "Query", "find_engine"]
