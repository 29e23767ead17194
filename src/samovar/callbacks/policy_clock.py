"""Tells policies when an epoch starts and ends: an epoch offline, an hour with data online."""

from samovar.runner import Callback, Run


class PolicyClock(Callback):
    def on_uri_begin(self, run: Run) -> None:
        assert run.uri is not None
        for policy in run.policies.values():
            policy.epoch_started(run.uri.epoch)

    def on_uri_end(self, run: Run) -> None:
        assert run.uri is not None
        if not run.uri.is_epoch_end:
            return
        losses, run.epoch_losses = run.epoch_losses, []
        if losses:
            for policy in run.policies.values():
                policy.epoch_finished(run.uri.epoch, train_losses=losses, metrics=run.metrics)
