"""`python -m samovar` is the command line."""

from samovar.cli import main

main()
