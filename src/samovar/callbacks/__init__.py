"""What runs around URIs and minibatches: schedules, stop rules, logs, progress, snapshots. Knows no config.

The interface is `samovar.Callback`; each class here is one, except what others take: `Countdown`, `RateFactor`,
`EvaluationJob`, `Every` and `WatchedMetric`. `samovar train` calls them at a URI's end in this order: ttl, evaluation,
user callbacks, logs, progress, schedules, stop rules, best epoch, snapshot, publication.
"""

from samovar.callbacks.best_nets import BestNets
from samovar.callbacks.evaluation import EvaluationJob, Every, LaggedEvaluation, TableEvaluation
from samovar.callbacks.logs import MetricsLog, TensorBoard, TimingLog
from samovar.callbacks.progress import Progress
from samovar.callbacks.schedule import Countdown, EarlyStop, Plateau, PolicyClock, RateFactor, Restarts
from samovar.callbacks.snapshots import Snapshotter
from samovar.callbacks.stopping import NanGuard, Signals, StopFile
from samovar.callbacks.ttl import TtlFilter
from samovar.callbacks.watching import BestEpoch, MetricPlateau, MetricStop, WatchedMetric

__all__ = [
    "BestEpoch",
    "BestNets",
    "Countdown",
    "EarlyStop",
    "EvaluationJob",
    "Every",
    "LaggedEvaluation",
    "MetricPlateau",
    "MetricStop",
    "MetricsLog",
    "NanGuard",
    "Plateau",
    "PolicyClock",
    "Progress",
    "RateFactor",
    "Restarts",
    "Signals",
    "Snapshotter",
    "StopFile",
    "TableEvaluation",
    "TensorBoard",
    "TimingLog",
    "TtlFilter",
    "WatchedMetric",
]
