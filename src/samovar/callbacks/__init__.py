"""What runs between URIs: snapshots, ttl, evaluation, logs, progress, rules that stop. Knows no configs."""

from samovar.callbacks.best_nets import BestNets
from samovar.callbacks.countdown import Countdown
from samovar.callbacks.early_stopping import EarlyStop
from samovar.callbacks.evaluation import EvaluationJob, FinalEvaluation, LaggedEvaluation
from samovar.callbacks.metrics_log import MetricsLog
from samovar.callbacks.nan_guard import NanGuard
from samovar.callbacks.plateau import Plateau, RateFactor
from samovar.callbacks.policy_clock import PolicyClock
from samovar.callbacks.progress import Progress
from samovar.callbacks.reader_watch import ReaderWatch
from samovar.callbacks.restarts import Restarts
from samovar.callbacks.signals import Signals
from samovar.callbacks.snapshotter import Snapshotter
from samovar.callbacks.stop_file import StopFile
from samovar.callbacks.tensorboard import TensorBoard
from samovar.callbacks.timing_log import TimingLog
from samovar.callbacks.ttl_filter import TtlFilter

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
    "ReaderWatch",
    "Restarts",
    "Signals",
    "Snapshotter",
    "StopFile",
    "TensorBoard",
    "TimingLog",
    "TtlFilter",
]
