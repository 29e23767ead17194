"""Brewing: raw rows → tensor table. Knows no models, no training and no cell layout.

The way of a CSV row, by module:

brew ─▶ stage ─▶ sources, formats.csv: scan ─▶ plan ─▶ engines.duckdb: sort ─▶ minibatches: join, cut, convert
     ─▶ tables.writer
"""

from samovar.brewing import text
from samovar.brewing.brew import brew_recipe
from samovar.brewing.converters import Converter
from samovar.brewing.draft import Draft, Guess, draft_recipe, write_recipe
from samovar.brewing.plan import TableConfig
from samovar.brewing.progress import BrewCounts
from samovar.brewing.stage import BrewResult
from samovar.brewing.steps import format_tensor_table, infer_converters, map_date_field

__all__ = [
    "BrewCounts",
    "BrewResult",
    "Converter",
    "Draft",
    "Guess",
    "TableConfig",
    "brew_recipe",
    "draft_recipe",
    "format_tensor_table",
    "infer_converters",
    "map_date_field",
    "text",
    "write_recipe",
]
