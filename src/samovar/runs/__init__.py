"""Many results side by side: find, list, filter, compare, clone, draw, checksum. Executes no script.

Names are imported on use: a listing needs neither numpy nor matplotlib.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.config import Diff
    from samovar.runs.checksums import Changes, Checksums, checksum, find_changes, read_list, write_list
    from samovar.runs.cloning import Clone, clone
    from samovar.runs.comparison import Summary, diff, summarize
    from samovar.runs.copying import Copy, copy
    from samovar.runs.curves import Plot, plot
    from samovar.runs.dendrogram import Dendrogram, tree
    from samovar.runs.find import Target, find_directories, find_targets
    from samovar.runs.leftovers import Leftover, Leftovers, find_leftovers
    from samovar.runs.listing import Listing, list_runs
    from samovar.runs.removing import Removable, find_removable, remove

__all__ = [
    "Changes",
    "Checksums",
    "Clone",
    "Copy",
    "Dendrogram",
    "Diff",
    "Leftover",
    "Leftovers",
    "Listing",
    "Plot",
    "Removable",
    "Summary",
    "Target",
    "checksum",
    "clone",
    "copy",
    "diff",
    "find_changes",
    "find_directories",
    "find_leftovers",
    "find_removable",
    "find_targets",
    "list_runs",
    "plot",
    "read_list",
    "remove",
    "summarize",
    "tree",
    "write_list",
]

__getattr__ = lazy_names(
    __name__,
    {
        "Changes": "checksums:Changes",
        "Checksums": "checksums:Checksums",
        "Clone": "cloning:Clone",
        "Dendrogram": "dendrogram:Dendrogram",
        "Copy": "copying:Copy",
        "Diff": "comparison:Diff",
        "Leftover": "leftovers:Leftover",
        "Leftovers": "leftovers:Leftovers",
        "Listing": "listing:Listing",
        "Plot": "curves:Plot",
        "Removable": "removing:Removable",
        "Summary": "comparison:Summary",
        "Target": "find:Target",
        "checksum": "checksums:checksum",
        "clone": "cloning:clone",
        "copy": "copying:copy",
        "diff": "comparison:diff",
        "find_changes": "checksums:find_changes",
        "find_directories": "find:find_directories",
        "find_leftovers": "leftovers:find_leftovers",
        "find_removable": "removing:find_removable",
        "find_targets": "find:find_targets",
        "list_runs": "listing:list_runs",
        "plot": "curves:plot",
        "read_list": "checksums:read_list",
        "remove": "removing:remove",
        "summarize": "comparison:summarize",
        "tree": "dendrogram:tree",
        "write_list": "checksums:write_list",
    },
)
