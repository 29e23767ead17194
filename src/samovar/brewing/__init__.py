"""Brewing: raw rows → tensor table. Recipe, converters, time, groups, joins, text, engines. Knows no models and no
training, nor how cells lie in files."""

from samovar.brewing import text
from samovar.brewing.plan import TableConfig
from samovar.brewing.steps import format_tensor_table, infer_converters, map_date_field

__all__ = ["TableConfig", "format_tensor_table", "infer_converters", "map_date_field", "text"]
