"""Stages: the user's own scripts, `main(params, out)`, that turn a config into a result directory."""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.stages.out import Out, OutPath, SourcePath, SourceResult
    from samovar.stages.stage import StageResult, run_stage

__all__ = ["Out", "OutPath", "SourcePath", "SourceResult", "StageResult", "run_stage"]

__getattr__ = lazy_names(
    __name__,
    {
        "Out": "out:Out",
        "OutPath": "out:OutPath",
        "SourcePath": "out:SourcePath",
        "SourceResult": "out:SourceResult",
        "StageResult": "stage:StageResult",
        "run_stage": "stage:run_stage",
    },
)
