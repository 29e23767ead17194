"""The command line: parse, call, print. All work is done in the rooms above."""

from samovar.cli.entry import main

__all__ = ["main"]
