"""Stages: the user's own scripts, `main(params, out)`, that turn a config into a result directory."""
