"""Who sorts: the seam, and one module an engine."""

from samovar.brew.engines.base import Engine, Query, find_engine

__all__ = ["Engine", "Query", "find_engine"]
