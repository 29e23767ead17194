"""Send params, losses and evaluations to MLflow; a killed run continues in the same MLflow run.

    pip install mlflow-skinny
    python ../click_model/make_log.py clicks.parquet --days 2 --rows-per-hour 500
    python mlflow_callback.py

The callback has no state. MLflow gives each run a random id, which must not become part of a model that has the same
bytes each time. The id is found again by the tag `model_dir`, even after a kill that came before the first snapshot.
"""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.tracking import MlflowClient
from tracked import evaluations_of, numbers_of

import samovar


class MlflowCallback(samovar.Callback):
    """Logs to MLflow, one step per URI.

    Args:
        model_dir: The directory of the model. MLflow keeps its path, not a copy.
        params: What to show as the run's parameters.
        experiment: The name of the MLflow experiment; created if it does not exist.
        tracking_uri: A server or a local store. None: `MLFLOW_TRACKING_URI`.

    Example:
        >>> callback = MlflowCallback("clicks_model", {"lr": 0.1}, tracking_uri="http://localhost:5000")
        >>> samovar.train("model.py", table, targets=["clicked"], model_dir="clicks_model", callbacks=[callback])
    """

    def __init__(
        self,
        model_dir: str | Path,
        params: Mapping[str, Any],
        experiment: str = "samovar",
        tracking_uri: str | None = None,
    ) -> None:
        self._model_dir = str(Path(model_dir).absolute())
        self._params = params
        self._experiment = experiment
        self._tracking_uri = tracking_uri
        self._run_id = ""
        self._last_steps: dict[str, int] = {}

    def on_run_begin(self, run: Any) -> None:
        self._client = MlflowClient(self._tracking_uri)
        found = self._client.get_experiment_by_name(self._experiment)
        experiment_id = found.experiment_id if found else self._client.create_experiment(self._experiment)
        wanted = f"tags.model_dir = '{self._model_dir}' and attributes.status = 'RUNNING'"
        started = [*self._client.search_runs([experiment_id], wanted, max_results=1)]
        if not started:
            started = [self._client.create_run(experiment_id, tags={"model_dir": self._model_dir})]
        self._run_id = started[0].info.run_id
        for name in started[0].data.metrics:  # a kill may come between two numbers of a step
            self._last_steps[name] = max(each.step for each in self._client.get_metric_history(self._run_id, name))
        params = [Param(name, str(value)) for name, value in self._params.items()]
        self._client.log_batch(self._run_id, params=params)

    def on_uri_end(self, run: Any) -> None:
        self._log(run.uri.number, numbers_of(run))

    def on_run_end(self, run: Any) -> None:
        self._log(run.next_uri, evaluations_of(run))
        self._client.set_terminated(self._run_id, "FINISHED")

    def _log(self, step: int, numbers: Mapping[str, float]) -> None:
        """What was logged before a kill is not logged again: it is the same number."""
        now = int(time.time() * 1000)
        new = {name: value for name, value in numbers.items() if step > self._last_steps.get(name, -1)}
        self._client.log_batch(self._run_id, [Metric(name, value, now, step) for name, value in new.items()])


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
        model_dir="mlflow_model",
        evaluate={"next_hour": {"keys": ["hit"], "shifts": [1]}},
        callbacks=[MlflowCallback("mlflow_model", params)],
    )


if __name__ == "__main__":
    main()
