"""`python -m samovar` is the command line too."""

from samovar.cli import main

main()
