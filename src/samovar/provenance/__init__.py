"""Where results come from, and whether that still holds: chain, why, audit, replay, verify-resume.

Names are imported on use: only a replay needs torch.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.provenance.auditing import AuditReport, audit
    from samovar.provenance.graph import Chain, chain, draw_chains, find_sources
    from samovar.provenance.reasons import Reasons, StaleLink, why
    from samovar.provenance.replaying import ReplayReport, replay
    from samovar.provenance.verify import VerifyReport, verify_resume

__all__ = [
    "AuditReport",
    "Chain",
    "Reasons",
    "ReplayReport",
    "StaleLink",
    "VerifyReport",
    "audit",
    "chain",
    "draw_chains",
    "find_sources",
    "replay",
    "verify_resume",
    "why",
]

__getattr__ = lazy_names(
    __name__,
    {
        "AuditReport": "auditing:AuditReport",
        "Chain": "graph:Chain",
        "Reasons": "reasons:Reasons",
        "ReplayReport": "replaying:ReplayReport",
        "StaleLink": "reasons:StaleLink",
        "VerifyReport": "verify:VerifyReport",
        "audit": "auditing:audit",
        "chain": "graph:chain",
        "draw_chains": "graph:draw_chains",
        "find_sources": "graph:find_sources",
        "replay": "replaying:replay",
        "verify_resume": "verify:verify_resume",
        "why": "reasons:why",
    },
)
