"""The training loop: learner, URIs, streams, loader, step, callbacks, run. Knows no result directory and no config."""

from samovar.runner.callback import Callback
from samovar.runner.learner import Learner
from samovar.runner.loader import Loader
from samovar.runner.loop import Runner, warm_up_vector_math
from samovar.runner.run import Run
from samovar.runner.step import MinibatchWorkerPool, PredictStep, Step, StepOptions
from samovar.runner.stream import Columns, ListStream, MergedStream, Stream, TableStream
from samovar.runner.uri import Uri, UriList, Uris
from samovar.tables.record import MinibatchRecord

__all__ = [
    "Callback",
    "Columns",
    "Learner",
    "ListStream",
    "Loader",
    "MergedStream",
    "MinibatchRecord",
    "MinibatchWorkerPool",
    "PredictStep",
    "Run",
    "Runner",
    "Step",
    "StepOptions",
    "Stream",
    "TableStream",
    "Uri",
    "UriList",
    "Uris",
]

warm_up_vector_math()  # here, because everything that trains imports this package first
