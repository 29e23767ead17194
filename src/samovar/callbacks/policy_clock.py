"""Tells policies when an epoch starts and ends: an epoch offline, an hour with data online. A policy that serves
several settings is told once."""

from collections.abc import Callable, Iterable

from samovar.policies import EarlyStopping, Policy
from samovar.runner import Callback, Run


class PolicyClock(Callback):
    def on_uri_begin(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if uri.is_epoch_begin:
            _tell_all(run.policies.values(), lambda policy: policy.epoch_started(uri.epoch))

    def on_uri_end(self, run: Run) -> None:
        uri = run.uri
        assert uri is not None
        if not uri.is_epoch_end:
            return
        losses, run.epoch_losses = run.epoch_losses, []
        if losses:
            _tell_all(
                run.policies.values(),
                lambda policy: policy.epoch_finished(uri.epoch, train_losses=losses, metrics=run.metrics),
            )


def _tell_all(policies: Iterable[Policy], tell: Callable[[Policy], None]) -> None:
    """Who wants to stop the run does not keep the others from hearing of it."""
    stopping: EarlyStopping | None = None
    for policy in {id(each): each for each in policies}.values():
        try:
            tell(policy)
        except EarlyStopping as wish:
            stopping = stopping or wish
    if stopping is not None:
        raise stopping
