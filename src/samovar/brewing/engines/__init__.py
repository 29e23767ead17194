"""Who sorts: the seam, and one module an engine. Knows no converters, no minibatches and no tables that are written."""

from samovar.brewing.engines.base import Engine, Query, find_engine

__all__ = ["Engine", "Query", "find_engine"]
