"""An HTTP endpoint for bundles and for what training publishes. Reads data only: it never runs a script."""

from samovar.serving.server import serve

__all__ = ["serve"]
