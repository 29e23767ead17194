"""Brewing: raw rows → tensor table. Recipe, converters, time, groups, joins, text, engines. Knows no models and no
training, nor how cells lie in files."""

from samovar.brew import text
from samovar.brew.dish import TableConfig, infer_converters
from samovar.brew.stage import format_tensor_table
from samovar.brew.time import map_date_field

__all__ = ["TableConfig", "format_tensor_table", "infer_converters", "map_date_field", "text"]
