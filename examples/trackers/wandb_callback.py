"""Send params, losses and evaluations to Weights & Biases; a killed run continues in the same W&B run.

    pip install wandb
    python ../click_model/make_log.py clicks.parquet --days 2 --rows-per-hour 500
    WANDB_MODE=offline python wandb_callback.py

The callback has no state: the id of the W&B run is made from the path of the model directory, so a run that is killed
finds it again, even before its first snapshot. W&B may lose the last steps of a process that is killed; the model
directory has them, and they are sent again.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import wandb
from tracked import evaluations_of, numbers_before, numbers_of

import samovar


class WandbCallback(samovar.Callback):
    """Logs to Weights & Biases, one step per URI.

    Args:
        model_dir: The directory of the model. W&B keeps its path in the config, not a copy.
        params: What to show as the run's config.
        project: The W&B project.
        settings: Passed to `wandb.init`, such as `{"mode": "offline"}`.

    Example:
        >>> callback = WandbCallback("clicks_model", {"lr": 0.1}, project="clicks")
        >>> samovar.train("model.py", table, targets=["clicked"], model_dir="clicks_model", callbacks=[callback])
    """

    def __init__(
        self,
        model_dir: str | Path,
        params: Mapping[str, Any],
        project: str = "samovar",
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._model_dir = Path(model_dir).absolute()
        self._params = params
        self._project = project
        self._settings = wandb.Settings(**(settings or {}))

    def on_run_begin(self, run: Any) -> None:
        run_id = hashlib.sha256(str(self._model_dir).encode()).hexdigest()[:16]
        self._run = wandb.init(
            project=self._project,
            id=run_id,
            name=self._model_dir.name,
            resume="allow",
            config={**self._params, "model_dir": str(self._model_dir)},
            settings=self._settings,
        )
        for number, numbers in numbers_before(self._model_dir).items():
            self._log(number, numbers)

    def on_uri_end(self, run: Any) -> None:
        self._log(run.uri.number, numbers_of(run))

    def on_run_end(self, run: Any) -> None:
        self._log(run.next_uri, evaluations_of(run))
        self._run.finish()

    def _log(self, step: int, numbers: dict[str, float]) -> None:
        if step >= self._run.step:  # otherwise W&B has it, with the same numbers
            self._run.log(numbers, step=step)


def main() -> None:
    columns = {"user": "id", **dict.fromkeys(["segment", "ad", "campaign", "place"], "hash")}
    columns |= {"sin": "number", "cos": "number", "clicked": "number", "hit": "key"}
    table = samovar.brew("clicks.parquet", "clicks_table", time="time", columns=columns, batch_size=256)
    params = {"emb_lr": 0.1, "ttl": 24}
    samovar.train(
        Path(__file__).parents[1] / "click_model" / "script.py",
        table,
        targets=["clicked"],
        model=params,
        model_dir="wandb_model",
        evaluate={"next_hour": {"keys": ["hit"], "shifts": [1]}},
        callbacks=[WandbCallback("wandb_model", params)],
    )


if __name__ == "__main__":
    main()
