"""The library's net for streams, for the columns that the config names. Its defaults are the library's."""

import samovar
from samovar.nets import StreamModel, stream_learner


def build(params: samovar.Params) -> samovar.Learner:
    model = StreamModel(list(params.ids), list(params.numbers), **params.get("net", {}))
    return stream_learner(model, "target", **params.get("rates", {}))
