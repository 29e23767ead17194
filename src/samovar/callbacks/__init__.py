"""What runs between URIs: schedules, stop rules, logs, progress, snapshots. Knows no config.

The seam is `samovar.Callback`; each class here is one, except `Countdown` and `RateFactor`, which `Plateau` takes.
`samovar train` calls them at a URI's end in this order: ttl, evaluation, the user's, logs, progress, schedules, stop
rules, snapshot. The callbacks of `evaluation.py` and `watching.py` are its own, and not public.
"""

from samovar.callbacks.best_nets import BestNets
from samovar.callbacks.logs import MetricsLog, TensorBoard, TimingLog
from samovar.callbacks.progress import Progress
from samovar.callbacks.schedule import Countdown, EarlyStop, Plateau, PolicyClock, RateFactor, Restarts
from samovar.callbacks.snapshots import Snapshotter
from samovar.callbacks.stopping import NanGuard, Signals, StopFile
from samovar.callbacks.ttl import TtlFilter

__all__ = [
    "BestNets",
    "Countdown",
    "EarlyStop",
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
