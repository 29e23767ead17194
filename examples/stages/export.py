"""Exports the model for programs without torch or Samovar: its weights as JSON, and its config."""

import json

import numpy as np

from samovar import Params
from samovar.stages import Out


def main(params: Params, out: Out) -> None:
    model = out.source("model")
    digits = params.get("digits", 6)
    weights = {name: array.round(digits).tolist() for name, array in np.load(model / "weights.npz").items()}
    (out / "model.json").write_text(json.dumps({"params": model.params.to_dict(), "weights": weights}))
