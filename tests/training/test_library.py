import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from tests.training.rows import COLUMNS, SCRIPT, make_frame

import samovar
from samovar.errors import BadInput, ConfigError, Conflict, NotAResult, Stopped, UnknownColumn, UnknownKey
from samovar.provenance.contract import compare, contract_of
from samovar.scoring import Model
from samovar.training import ModelDirectory, PredictionDirectory

EVALUATE = {"next_hour": {"keys": ["hit"], "shifts": [1]}}
QUIET: dict[str, Any] = {"num_threads": 1, "progress": False}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table, a script, a trained model, and its predictions."""
    folder = tmp_path_factory.mktemp("library")
    (folder / "model.py").write_text(SCRIPT)
    frame = make_frame()
    table = samovar.brew(frame, folder / "table", time="time", columns=COLUMNS, batch_size=50, progress=False)
    run = samovar.train(
        folder / "model.py", table, targets=["clicked"], evaluate=EVALUATE, model_dir=folder / "model", **QUIET
    )
    samovar.predict(run, table, folder / "predictions", keys=["hit"], targets=["clicked"])
    return folder


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    return make_frame()


@pytest.fixture(scope="module")
def expected(place: Path) -> np.ndarray:
    """What `samovar predict` wrote, in the order of the frame."""
    found = PredictionDirectory.of(place / "predictions").predictions()
    return np.asarray(found.sort_values("hit")["prediction"])


@pytest.fixture(scope="module")
def model(place: Path) -> Model:
    return samovar.load(place / "model")


@pytest.fixture(autouse=True)
def same_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


# train


def test_training_from_python_gives_the_bytes_of_the_command_line(place: Path, tmp_path: Path) -> None:
    config = {
        "num_threads": 1,
        "progress": False,
        "train_data": {"table": str(place / "table"), "targets": ["clicked"]},
        "evaluation": {"eval_confs": [{"name": "next_hour", "table": str(place / "table"), **EVALUATE["next_hour"]}]},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    train = ["train", str(tmp_path / "config.json"), "--script", str(place / "model.py"), "--out", str(tmp_path / "m")]
    run_cli(*train)
    predict = ["predict", str(tmp_path / "m"), "--table", str(place / "table"), "--out", str(tmp_path / "p")]
    run_cli(*predict, "--keys", "hit", "--targets", "clicked")
    for ours, theirs in (("m", "model"), ("p", "predictions")):
        assert compare(contract_of(tmp_path / ours), contract_of(place / theirs)) == []
    assert (tmp_path / "m/script.py").read_bytes() == (place / "model/script.py").read_bytes()


def run_cli(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "samovar", *words], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_finished_run_is_returned_as_it_is(place: Path) -> None:
    arguments: Any = {"targets": ["clicked"], "evaluate": EVALUATE, "model_dir": place / "model", **QUIET}
    run = samovar.train(place / "model.py", place / "table", **arguments)
    assert run.was_finished
    assert run.status is not None
    assert run.status.state == "finished"
    assert run.config["train_data"]["targets"] == ["clicked"]
    with pytest.raises(Conflict, match="seed"):
        samovar.train(place / "model.py", place / "table", seed=5, **arguments)


def test_metrics_losses_and_predictions_are_frames(place: Path, tmp_path: Path) -> None:
    run = ModelDirectory.of(place / "model")
    metrics = run.metrics()
    assert len(metrics) == 5  # the last hour has no next one
    assert metrics["auc"].notna().all()
    assert run.metrics(by="day")["num_examples"].tolist() == [run.predictions("next_hour").shape[0]]
    assert run.losses()["num_examples"].sum() == 600
    assert run.predictions().columns.tolist() == ["hit", "clicked", "prediction", "model_hour"]
    with pytest.raises(BadInput, match=r"no evaluation 'next_huor'. Did you mean 'next_hour'"):
        run.predictions("next_huor")
    run.plot(tmp_path / "plot.png")
    assert (tmp_path / "plot.png").stat().st_size > 10_000


def test_config_keys_are_keywords_and_a_config_can_be_given_whole(place: Path, tmp_path: Path) -> None:
    common: Any = {"targets": ["clicked"], **QUIET}
    one = samovar.train(
        place / "model.py", place / "table", epoch_count=2, model={"dim": 2}, model_dir=tmp_path / "one", **common
    )
    tree = {
        "train_data": {"table": str(place / "table"), "epoch_count": 7, "targets": ["clicked"]},
        "model": {"dim": 2},
        **QUIET,
    }
    two = samovar.train(place / "model.py", config=tree, epoch_count=2, model_dir=tmp_path / "two")
    (tmp_path / "three.json").write_text(json.dumps({**tree, "model_dir": "third"}))
    three = samovar.train(place / "model.py", config=tmp_path / "three.json", epoch_count=2)
    assert three.path == tmp_path / "third"
    for other in (two, three):
        assert compare(contract_of(one.path), contract_of(other.path)) == []


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"epoch_cuont": 3}, UnknownKey, "no argument or config key 'epoch_cuont'. Did you mean 'epoch_count'"),
        ({"model_dir": None}, ConfigError, "model_dir: missing"),
        ({"targets": ["click"]}, UnknownColumn, "no column 'click'"),
        ({"targets": "click"}, UnknownColumn, "no column 'click'"),
        ({"callbacks": [object()]}, BadInput, "callbacks must be a list of samovar.Callback objects, got one object"),
        ({"config": "rows.csv"}, ConfigError, r"rows.csv holds rows; .* `samovar recipe rows.csv` drafts a recipe"),
        ({"evaluate": {"next": ["hit"]}}, ConfigError, r"evaluate\['next'\] must be a dict"),
        ({"model": {"dmi": 3}}, UnknownKey, "the script does not read model.dmi. Did you mean 'model.dim'"),
    ],
)
def test_mistakes_leave_no_directory(
    place: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: Any,
    error: type[Exception],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("rows.csv").write_text("a,b\n1,2\n")
    given = {"targets": ["clicked"], "model_dir": tmp_path / "m", **QUIET, **arguments}
    with pytest.raises(error, match=message):
        samovar.train(place / "model.py", place / "table", **given)
    assert not (tmp_path / "m").exists()


def test_a_run_that_fails_in_its_first_step_can_be_corrected(place: Path, tmp_path: Path) -> None:
    arguments: Any = {"model_dir": tmp_path / "m", **QUIET}
    with pytest.raises(UnknownColumn, match="the loss reads 'clicked', which is not in `targets`"):
        samovar.train(place / "model.py", place / "table", **arguments)  # without targets
    assert [path.name for path in (tmp_path / "m").iterdir()] == [".samovar"]
    run = samovar.train(place / "model.py", place / "table", targets=["clicked"], **arguments)
    assert run.is_finished


def test_callbacks_of_the_caller_run_and_keep_their_state(place: Path, tmp_path: Path) -> None:
    class Count(samovar.Callback):
        def __init__(self, stop_at: int | None = None) -> None:
            self.num_uris, self._stop_at = 0, stop_at

        def on_uri_end(self, run: Any) -> None:
            self.num_uris += 1
            if self.num_uris == self._stop_at:
                run.stop("enough")

        def state_dict(self) -> dict[str, int]:
            return {"num_uris": self.num_uris}

        def load_state_dict(self, state: Mapping[str, Any]) -> None:
            self.num_uris = state["num_uris"]

    arguments: Any = {"targets": ["clicked"], "evaluate": EVALUATE, "model_dir": tmp_path / "m", **QUIET}
    with pytest.raises(Stopped):
        samovar.train(place / "model.py", place / "table", callbacks=[Count(stop_at=2)], **arguments)
    rest = Count()
    run = samovar.train(place / "model.py", place / "table", callbacks=[rest], **arguments)
    assert rest.num_uris == 6
    same = ["evaluation", "logs/metrics.jsonl"]
    assert all(read_all(run.path / name) == read_all(place / "model" / name) for name in same)


def read_all(path: Path) -> dict[str, bytes]:
    files = [path] if path.is_file() else sorted(each for each in path.rglob("*") if each.is_file())
    return {str(file.relative_to(path)): file.read_bytes() for file in files}


PROGRAM = """
import os, signal, sys
import torch, samovar
{script}

class Killer(samovar.Callback):
    def on_uri_end(self, run):
        if run.next_uri in (2, 4) and not os.path.exists(f"killed {{run.next_uri}}") and sys.argv[2] == "kill":
            open(f"killed {{run.next_uri}}", "w").close()
            os.kill(os.getpid(), signal.SIGKILL)

samovar.train(build, "table", targets=["clicked"], evaluate={evaluate}, model_dir=sys.argv[1], num_threads=1,
              progress=False, snapshotter={{"frequency": 0}}, callbacks=[Killer()])
"""


def test_a_function_of_a_program_is_killed_and_goes_on_and_another_is_refused(place: Path, tmp_path: Path) -> None:
    os.symlink(place / "table", tmp_path / "table")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM.format(script=SCRIPT, evaluate=EVALUATE))

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, program, *words], cwd=tmp_path, capture_output=True, text=True)

    for _ in range(2):
        assert run("killed", "kill").returncode == -signal.SIGKILL
    changed = program.read_text().replace("torch.nn.ReLU()", "torch.nn.Tanh()")
    program.write_text(changed)
    refused = run("killed", "kill")
    assert refused.returncode == 1
    assert "script.py changed since this run started" in refused.stderr
    assert "-        self.top = torch.nn.Sequential(torch.nn.Linear(5 * dim + 4, 24), torch.nn.ReLU()" in refused.stderr
    program.write_text(PROGRAM.format(script=SCRIPT, evaluate=EVALUATE))
    for folder in ("killed", "straight"):
        done = run(folder, "kill" if folder == "killed" else "")
        assert done.returncode == 0, done.stderr
    assert compare(contract_of(tmp_path / "killed"), contract_of(tmp_path / "straight")) == []
    # The kept source is a whole script: the model opens where the program is not.
    rows = make_frame(40, seed=3)
    assert np.array_equal(samovar.load(tmp_path / "killed").predict(rows), samovar.load(place / "model").predict(rows))


# load


def test_load_scores_raw_rows_with_the_bits_of_predict(model: Model, frame: pd.DataFrame, expected: np.ndarray) -> None:
    order = np.random.default_rng(0).permutation(len(frame))
    arrow = pa.Table.from_pandas(frame, preserve_index=False)
    rows = arrow.to_pylist()
    assert np.array_equal(model.predict(frame), expected)
    assert np.array_equal(model.predict(frame.iloc[order]), expected[order])
    assert np.array_equal(model.predict(pl.from_pandas(frame)), expected)
    assert np.array_equal(model.predict(arrow), expected)
    assert np.array_equal(model.predict(arrow.to_pydict()), expected)
    wanted = {*model.signature.names, "clicked", "hit"}
    dicts = [{name: value for name, value in row.items() if name in wanted and value is not None} for row in rows]
    assert np.array_equal(model.predict(dicts), expected)  # a missing key is null
    for number in (0, 7, 599):
        assert np.array_equal(model.predict([dicts[number]]), expected[[number]])
    for first in range(0, 600, 61):
        assert np.array_equal(model.predict(frame[first : first + 61]), expected[first : first + 61])


def test_load_scores_a_table_in_its_order(model: Model, place: Path) -> None:
    written = PredictionDirectory.of(place / "predictions").predictions()["prediction"]
    assert np.array_equal(model.predict(samovar.open_table(place / "table")), written.to_numpy())


def test_integers_may_be_decimal_strings_and_floats_without_fraction(model: Model) -> None:
    big = 2**64 - 5
    as_numbers = model.predict([{"user": big}, {"user": 12}])
    assert np.array_equal(model.predict([{"user": str(big)}, {"user": "12"}]), as_numbers)
    assert np.array_equal(model.predict([{"user": 12.0}]), as_numbers[1:])
    missing = [{"user": str(big), "price": ""}, {"user": "NA"}, {"user": ""}]  # as a CSV file has them
    assert np.array_equal(model.predict(missing), model.predict([{"user": big}, {}, {}]))
    assert np.array_equal(
        model.predict(pd.DataFrame([{"user": 12}]).reindex(columns=model.signature.names)), as_numbers[1:]
    )


def test_dicts_of_a_frame_are_scored_as_the_frame_is(model: Model, frame: pd.DataFrame, expected: np.ndarray) -> None:
    """With columns that the model does not read, and NaN for what is missing."""
    rows = frame.assign(note="x", price=frame["price"].astype(float))
    assert np.array_equal(model.predict(rows.to_dict("records")), expected)
    assert np.array_equal(model.predict(rows.to_dict("list")), expected)


def test_no_rows_give_no_scores(model: Model, frame: pd.DataFrame) -> None:
    assert model.predict([]).shape == model.predict(frame[:0]).shape == (0,)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ([{"usr": 3}], UnknownColumn, "row 0: no column 'usr'. Did you mean 'user'"),
        ([{"price": 1}, {"price": "abc"}], BadInput, "row 1: column 'price'"),
        ([{"price": "abc"}], BadInput, "row 0: column 'price': expected numbers, got 'abc'"),
        ([{}, {"user": 1.5}], BadInput, "row 1: column 'user': expected integers, got 1.5"),
        ([{"history": 3}], BadInput, "column 'history' is int64, expected lists of integers"),
        ([{"ad": 3}], BadInput, "column 'ad' is int64, expected strings"),
        ([{}, {"vector": [1.0]}], BadInput, "row 1: column 'vector' has a list of length 1"),
        (pd.DataFrame({"user": [1]}), UnknownColumn, "no column 'ad', which the model reads"),
        (7, BadInput, "or a relation|got 7"),
        ([1, 2], BadInput, "rows must be"),
        (
            {"user": 3},
            BadInput,
            r"column 'user': a dict of columns must have a list of values, got 3. To score one row",
        ),
        (pd.Series([1, 2]), BadInput, "expected rows with named columns, got a pandas Series"),
    ],
)
def test_bad_rows_are_named(model: Model, rows: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        model.predict(rows)


def test_loading_changes_neither_threads_nor_random_numbers(place: Path, frame: pd.DataFrame) -> None:
    torch.set_num_threads(2)
    samovar.set_seed(5)
    before = torch.rand(3)
    samovar.set_seed(5)
    samovar.load(place / "model").predict(frame[:5])
    assert torch.get_num_threads() == 2
    assert torch.equal(torch.rand(3), before)


def test_embeddings_are_read_by_id_or_string(model: Model, frame: pd.DataFrame) -> None:
    known = model.embedding("ad", ["shoes", "nobody knows"])
    assert known.shape == (2, 4)
    assert known[0].any()
    assert not known[1].any()
    last = frame["user"].dropna().iloc[-1]
    assert model.embedding("user", np.array([last], np.uint64)).any()
    assert not model.embedding("user", [1, -1]).any()
    with pytest.raises(UnknownColumn, match=r"no hash table 'usr'. Did you mean 'user'"):
        model.embedding("usr", [1])
    with pytest.raises(BadInput, match="the ids of 'user' are integers, got strings"):
        model.embedding("user", ["17"])


def test_an_unfinished_model_is_loaded_only_on_request(place: Path, tmp_path: Path) -> None:
    class Stop(samovar.Callback):
        def on_uri_end(self, run: Any) -> None:
            run.stop("enough")

    with pytest.raises(Stopped):
        samovar.train(
            place / "model.py",
            place / "table",
            targets=["clicked"],
            start_date="2024-05-01T00",
            model_dir=tmp_path / "m",
            callbacks=[Stop()],
            **QUIET,
        )
    with pytest.raises(NotAResult, match=r"is stopped, not finished. snapshot=True"):
        samovar.load(tmp_path / "m")
    assert samovar.load(tmp_path / "m", snapshot=True).predict([{}]).shape == (1,)


def test_a_copied_model_scores_without_its_table(place: Path, tmp_path: Path, expected: np.ndarray) -> None:
    shutil.copytree(place / "model", tmp_path / "copy", symlinks=True)
    assert np.array_equal(samovar.load(tmp_path / "copy").predict(make_frame()), expected)


def test_a_model_that_mixes_rows_is_scored_by_whole_minibatches(place: Path, tmp_path: Path) -> None:
    mixing = SCRIPT.replace("torch.sigmoid)", "lambda output: output.softmax(0), mixes_rows=True)")
    (tmp_path / "model.py").write_text(mixing)
    run = samovar.train(tmp_path / "model.py", place / "table", targets=["clicked"], model_dir=tmp_path / "m", **QUIET)
    assert run.load().predict(make_frame(100)).sum() == pytest.approx(1)
    done = samovar.predict(run, place / "table", tmp_path / "p")
    assert done.predictions()["prediction"][:50].sum() == pytest.approx(1)
