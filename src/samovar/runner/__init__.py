"""The only training loop: learner, URIs, loader, pool, callbacks, run. Knows no result directory and no config."""

from samovar.runner.callback import Callback
from samovar.runner.learner import Learner
from samovar.runner.loader import Loader
from samovar.runner.loop import Runner, warm_up_vector_math
from samovar.runner.run import Run
from samovar.runner.step import MinibatchWorkerPool
from samovar.runner.stream import Columns, ListStream, MergedStream, Stream, TableStream
from samovar.runner.uri import Uri, Uris
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
    "Run",
    "Runner",
    "Stream",
    "TableStream",
    "Uri",
    "Uris",
]

warm_up_vector_math()  # as soon as anything can train, and before it does
