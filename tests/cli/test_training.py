"""The commands of training, as a user types them."""

import json
from pathlib import Path

import pytest
import torch
from tests.cli.commands import on_a_terminal, samovar
from tests.places import local
from tests.training.toys import ONLINE, SCRIPT, make_hours, write_table

from samovar import Bag, HashEmbedding
from samovar.embeddings import HashAdagrad, final_state
from samovar.provenance.verify import run_in_child
from samovar.results import ResultDirectory, ResultPlan, begin
from samovar.store import LocalStore
from samovar.training.dry_run import try_batches
from samovar.training.request import make_request


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1, 2]))
    (quick_path / "online.json").write_text(json.dumps({**ONLINE, "model_yt_dir": "clicks_model"}))
    (quick_path / "script.py").write_text(SCRIPT)
    return quick_path


def test_a_model_is_trained_once_and_measured(folder: Path) -> None:
    config, script, model = folder / "online.json", folder / "script.py", folder / "clicks_model"
    done = samovar("train", config, "--script", script)
    assert (done.returncode, done.stdout) == (0, f"{model}: finished\n"), done.stderr
    assert "2021-01-01T02:00 (URI 3 of 3):" in done.stderr
    again = samovar("train", config, "--script", script)
    assert (again.returncode, again.stdout) == (0, f"{model}: already finished, nothing to do\n")
    piped = samovar("metrics", model)
    assert piped.stdout.splitlines()[1].startswith("log,1,2021-01-01T01:00,32,")
    assert "│ log " in on_a_terminal("metrics", model, "--by", "day")


def test_a_dry_run_shows_shapes_speed_and_loss_and_writes_nothing(folder: Path) -> None:
    request = make_request(folder / "online.json", folder / "script.py")
    ended = run_in_child(lambda: print(try_batches(request, 4)), folder / "log")
    assert ended.code == 0, ended.output
    assert "input      ad                       bag: data [32], data_len [32]" in ended.output
    assert "output     prediction               float32 [32]" in ended.output
    assert "4 minibatches, 128 examples" in ended.output
    assert not local(request.out).exists()


def test_a_run_that_depends_on_the_clock_does_not_verify(folder: Path) -> None:
    script = SCRIPT.replace("import torch\n", "import time\nimport torch\n", 1)
    script = script.replace("        self.hours += 1", "        self.hours = time.time()")
    (folder / "script.py").write_text(script)
    done = samovar("verify-resume", folder / "online.json", "--script", folder / "script.py", "--kills", 1, "--json")
    assert done.returncode == 1
    answer = json.loads(done.stdout)
    assert answer["kills"] == 1
    assert any("model/state.json: differs" in line for line in answer["differences"])
    assert "\x1b" not in done.stderr
    assert "the results differ after 1 kill." in done.stderr
    assert "model/state.json: differs" in done.stderr


def write_model(path: Path, model: torch.nn.Module | None) -> None:
    with begin(ResultDirectory(LocalStore(path)), ResultPlan("model", config={})) as result:
        result.restore()
        result.finish({"model": final_state(model)} if model else {"weights": [1.0]}, 1)


def lookup(embedding: HashEmbedding, ids: list[int]) -> None:
    embedding({"ad": Bag(torch.tensor(ids), torch.ones(len(ids), dtype=torch.int32))})


def test_sizes_of_hash_tables_and_ages_of_ids_are_printed(tmp_path: Path) -> None:
    embedding = HashEmbedding({"ad": 4})
    HashAdagrad(embedding, lr=0.1, ttl=9)
    lookup(embedding, [1, 2, 3])
    for _ in range(3):
        embedding.advance_clock()
    lookup(embedding, [3, 4])
    write_model(tmp_path / "model", torch.nn.Sequential(embedding))
    done = samovar("embeddings", tmp_path / "model")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert ["model/0:", "ad", "adagrad", "4", "9", "4", "176", "bytes", "4", "0", "0", "0"] in lines
    assert ["0", "2", "█" * 40] in lines
    assert ["2-3", "2", "█" * 40] in lines


def test_vectors_are_printed_and_exported(tmp_path: Path) -> None:
    embedding = HashEmbedding({"ad": 2})
    embedding.set_weights("ad", [1, -1], [[0.5, 1.0], [2.0, 3.0]])
    write_model(tmp_path / "model", torch.nn.Sequential(embedding))
    done = samovar("embeddings", tmp_path / "model", "--ids", "1, -1,7")
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[1:] == [["1", "0.5", "1"], ["18446744073709551615", "2", "3"], ["7", "unknown"]]
    done = samovar("embeddings", tmp_path / "model", "--ids", "1,x", "--table", "ad", "--json")
    assert json.loads(done.stdout)[1] == {"id": "x", "is_known": False, "vector": [0.0, 0.0]}
    done = samovar("embeddings", tmp_path / "model", "--out", tmp_path / "ads.parquet")
    assert done.stdout == f"{tmp_path / 'ads.parquet'}: 2 vectors\n"
    done = samovar("embeddings", tmp_path / "model", "--table", "ad")
    assert (done.returncode, "--table needs --ids or --out" in done.stderr) == (2, True)


def test_a_model_without_hash_tables_is_a_clear_error(tmp_path: Path) -> None:
    write_model(tmp_path / "model", None)
    done = samovar("embeddings", tmp_path / "model")
    assert done.returncode == 2
    assert "no hash tables" in done.stderr
