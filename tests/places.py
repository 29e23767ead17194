"""Places that tests know to be local."""

from pathlib import Path

from samovar.config import Place


def local(place: Place) -> Path:
    assert isinstance(place, Path)
    return place
