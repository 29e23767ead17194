"""Config to objects to loop: training, prediction and loading, from Python and from the command line.

Each name is imported on first use: the schema alone needs no torch.
"""

from typing import TYPE_CHECKING

from samovar.lazy import lazy_names

if TYPE_CHECKING:
    from samovar.training.dry_run import try_batches
    from samovar.training.exporting import ExportRequest, ExportResult, export, run_export
    from samovar.training.library import load, predict, train
    from samovar.training.model_directory import ModelDirectory, PredictionDirectory
    from samovar.training.prediction import PredictRequest, PredictResult, run_prediction
    from samovar.training.request import Request, make_request
    from samovar.training.session import TrainResult, run_training

__all__ = [
    "ExportRequest",
    "ExportResult",
    "ModelDirectory",
    "PredictRequest",
    "PredictResult",
    "PredictionDirectory",
    "Request",
    "TrainResult",
    "export",
    "load",
    "make_request",
    "predict",
    "run_export",
    "run_prediction",
    "run_training",
    "train",
    "try_batches",
]

__getattr__ = lazy_names(
    __name__,
    {
        "ExportRequest": "exporting:ExportRequest",
        "ExportResult": "exporting:ExportResult",
        "ModelDirectory": "model_directory:ModelDirectory",
        "PredictRequest": "prediction:PredictRequest",
        "PredictResult": "prediction:PredictResult",
        "PredictionDirectory": "model_directory:PredictionDirectory",
        "Request": "request:Request",
        "TrainResult": "session:TrainResult",
        "export": "exporting:export",
        "load": "library:load",
        "make_request": "request:make_request",
        "predict": "library:predict",
        "run_export": "exporting:run_export",
        "run_prediction": "prediction:run_prediction",
        "run_training": "session:run_training",
        "train": "library:train",
        "try_batches": "dry_run:try_batches",
    },
)
