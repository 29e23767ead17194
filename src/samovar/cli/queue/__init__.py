"""`samovar queue`: what is to be done, is being done, and was done. One file a command."""

import typer

from samovar.cli.queue.add import add
from samovar.cli.queue.cancel import cancel
from samovar.cli.queue.ls import ls
from samovar.cli.queue.rebuild import rebuild
from samovar.cli.queue.retry import retry
from samovar.cli.queue.show import show

queue = typer.Typer(
    name="queue",
    help="Keep configs that are to be done, each exactly once.",
    no_args_is_help=True,
)
for command in (add, ls, show, retry, cancel, rebuild):
    queue.command()(command)

__all__ = ["queue"]
