"""Brewing: raw rows → tensor table. Knows no models, no training and no cell layout.

The way of a CSV row, by module:

brew ─▶ sources, formats.csv: scan ─▶ plan ─▶ engines.duckdb: sort ─▶ minibatches: join, cut, convert ─▶ tables.writer
"""

from samovar.brewing import text
from samovar.brewing.converters import Converter
from samovar.brewing.plan import TableConfig
from samovar.brewing.steps import format_tensor_table, infer_converters, map_date_field

__all__ = ["Converter", "TableConfig", "format_tensor_table", "infer_converters", "map_date_field", "text"]
