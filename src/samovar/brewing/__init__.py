"""Brewing: raw rows → tensor table. Knows no models, no training and no cell layout.

The way of a CSV row, by module:

brew ─▶ stage ─▶ sources, formats.csv: scan ─▶ plan, parts ─▶ engines.duckdb: sort ─▶ minibatches: join, cut, convert
     ─▶ tables.writer

Names are imported on use: processes and executors that make parts need no torch.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
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

__getattr__ = lazy_names(
    __name__,
    {
        "BrewCounts": "progress:BrewCounts",
        "BrewResult": "stage:BrewResult",
        "Converter": "converters:Converter",
        "Draft": "draft:Draft",
        "Guess": "draft:Guess",
        "TableConfig": "plan:TableConfig",
        "brew_recipe": "brew:brew_recipe",
        "draft_recipe": "draft:draft_recipe",
        "format_tensor_table": "steps:format_tensor_table",
        "infer_converters": "steps:infer_converters",
        "map_date_field": "steps:map_date_field",
        "text": "text",
        "write_recipe": "draft:write_recipe",
    },
)
