"""A web page for a folder of results, and the report that needs no server. Writes nothing but the report.

Needs the packages of `samovar[web]`, which are imported on use.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.ui.app import serve
    from samovar.ui.report import write_report

__all__ = ["serve", "write_report"]

__getattr__ = lazy_names(__name__, {"serve": "app:serve", "write_report": "report:write_report"})
