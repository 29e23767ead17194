"""How hypothesis runs here."""

from hypothesis import settings

# A busy machine makes any example slow: time is no property of a config.
settings.register_profile("no_deadline", deadline=None)
settings.load_profile("no_deadline")
