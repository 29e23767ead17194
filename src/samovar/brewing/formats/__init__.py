"""Raw file formats: base.py is the interface, then one module per format. Knows no order, no engines and no recipes."""

from samovar.brewing.formats.base import FileScan, Format, HashedFile, find_format
from samovar.brewing.formats.column_types import ColumnTypes

__all__ = ["ColumnTypes", "FileScan", "Format", "HashedFile", "find_format"]
