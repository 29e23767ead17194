"""What runs between URIs: snapshots, ttl, evaluation, logs, progress, rules that stop. Knows no configs."""

from samovar.callbacks.best_nets import BestNets
from samovar.callbacks.clock import PolicyClock, Snapshotter, TtlFilter
from samovar.callbacks.evaluation import EvaluationJob, FinalEvaluation, LaggedEvaluation
from samovar.callbacks.logs import MetricsLog, TensorBoard, TimingLog
from samovar.callbacks.progress import Progress
from samovar.callbacks.stopping import Countdown, EarlyStop, NanGuard, Plateau, RateFactor, Restarts, Signals, StopFile

__all__ = [
    "BestNets",
    "Countdown",
    "EarlyStop",
    "EvaluationJob",
    "FinalEvaluation",
    "LaggedEvaluation",
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
    "TensorBoard",
    "TimingLog",
    "TtlFilter",
]
