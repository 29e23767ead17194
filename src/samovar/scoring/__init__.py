"""A frozen model as data: its signature, the one scoring function, predictions as files and how good they are. Knows no
scripts, no training loop and no web.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.scoring.model import Model
    from samovar.scoring.quality import Quality, measure, read_quality
    from samovar.scoring.signature import Signature
    from samovar.scoring.tiles import score

__all__ = ["Model", "Quality", "Signature", "measure", "read_quality", "score"]

__getattr__ = lazy_names(
    __name__,
    {
        "Model": "model:Model",
        "Quality": "quality:Quality",
        "Signature": "signature:Signature",
        "measure": "quality:measure",
        "read_quality": "quality:read_quality",
        "score": "tiles:score",
    },
)
