"""Will the flight arrive more than 15 minutes late? The library's net for streams over ids and numbers."""

import samovar
from samovar.nets import StreamModel, stream_learner

IDS = ("carrier", "tailnum", "origin", "dest", "flight", "origin_day", "dest_day", "carrier_day", "weekday")
NUMBERS = ("hour", "month", "distance", "visibility", "rain", "wind", "temperature", "pressure")


def build(params: samovar.Params) -> samovar.Learner:
    # Hours with flights, about nineteen per day: an id that is not seen for four weeks is forgotten.
    return stream_learner(StreamModel(IDS, NUMBERS), target="late", ttl=params.get("ttl", 500))
