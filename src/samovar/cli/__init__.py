"""The command line: parse, call the library, print."""

from samovar.cli.entry import main

__all__ = ["main"]
