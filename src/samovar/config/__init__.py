"""Configs: reading, overriding, checking, comparing, and recording which parameters code reads. Knows no section of any
command: each room has its own schema."""

from samovar.config.diff import Diff, flat_diff, flatten, format_csv, show_value
from samovar.config.document import dump_config, merge, parse_config, parse_override, read_config
from samovar.config.identity import FREE_KEYS, Comparison, compare
from samovar.config.params import ChangedDefault, Ledger, Params, changed_defaults
from samovar.config.places import Place, Url, as_path, as_place, resolve_path
from samovar.config.schema import Schema, explain_error
from samovar.config.values import MISSING, did_you_mean

__all__ = [
    "FREE_KEYS",
    "MISSING",
    "ChangedDefault",
    "Comparison",
    "Diff",
    "Ledger",
    "Params",
    "Place",
    "Schema",
    "Url",
    "as_path",
    "as_place",
    "changed_defaults",
    "compare",
    "did_you_mean",
    "dump_config",
    "explain_error",
    "flat_diff",
    "flatten",
    "format_csv",
    "merge",
    "parse_config",
    "parse_override",
    "read_config",
    "resolve_path",
    "show_value",
]
