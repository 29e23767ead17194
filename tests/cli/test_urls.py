"""Every step with its directories in an object store: the same bytes as in local folders."""

import json
from pathlib import Path
from uuid import uuid4

import pytest
from tests.cli.commands import run_here
from tests.cli.test_examples import FILES, ONLINE, RECIPE

from samovar.provenance.contract import compare, contract_of
from samovar.store import open_store, write_file
from samovar.testing.object_servers import ObjectServer


@pytest.fixture
def url(s3: ObjectServer, quick_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder in a bucket with raw rows; the same rows are in this process's folder."""
    monkeypatch.chdir(quick_path)
    place = f"{s3.url}/{uuid4().hex}"
    Path("raw").mkdir()
    Path("raw/rows.csv").write_text(FILES["rows.csv"])
    Path("model.py").write_text(FILES["model.py"])
    write_file(open_store(place), "raw/rows.csv", FILES["rows.csv"].encode())
    return place


def make_all(root: str) -> None:
    """Brew, train and predict below a place."""
    Path("clicks.json").write_text(json.dumps({**RECIPE, "source": f"{root}/raw/*.csv"}))
    run_here(["brew", "clicks.json", "--out", f"{root}/tables/clicks"])
    evaluations = [{**each, "table": f"{root}/tables/clicks"} for each in ONLINE["evaluation"]["eval_confs"]]  # type: ignore[index]  # of a dict of many things
    data = {"table": f"{root}/tables/clicks", "targets": ["clicked"]}
    Path("online.json").write_text(
        json.dumps({**ONLINE, "train_data": data, "evaluation": {"eval_confs": evaluations}})
    )
    run_here(["train", "online.json", "--script", "model.py", "--out", f"{root}/models/a"])
    run_here(["predict", f"{root}/models/a", "--table", f"{root}/tables/clicks", "--out", f"{root}/predictions/a"])


def test_what_is_made_in_an_object_store_has_the_bytes_of_the_local_run(url: str) -> None:
    make_all(".")
    make_all(url)
    for name in ("tables/clicks", "models/a", "predictions/a"):
        assert compare(contract_of(name), contract_of(f"{url}/{name}")) == [], name
    assert run_here(["metrics", f"{url}/models/a", "--json"]) == run_here(["metrics", "models/a", "--json"])
    assert run_here(["embeddings", f"{url}/models/a", "--json"]) == run_here(["embeddings", "models/a", "--json"])
    shown = json.loads(run_here(["show", f"{url}/models/a", "--json"]))
    assert (shown["state"], shown["sources"][0]["state"]) == ("finished", "good")
    listed = json.loads(run_here(["ls", f"{url}/models/*", "--where", "kind=model", "--json"]))
    assert [each["name"] for each in listed] == [f"{url}/models/a"]
    assert json.loads(run_here(["diff", "models/a", f"{url}/models/a", "--ignore", "*.table", "--json"]))
    assert run_here(["plot", f"{url}/models/a"]).count(",loss,") == 4
    assert json.loads(run_here(["chain", f"{url}/predictions/a", "--json"]))[0]["sources"]
    assert json.loads(run_here(["why", f"{url}/models/a", "--json"]))["stale"] == []
    assert not any(each["differences"] for each in json.loads(run_here(["audit", url, "--json"])))
    assert json.loads(run_here(["replay", f"{url}/models/a", "--json"]))["differences"] == []
    assert json.loads(run_here(["checksum", f"{url}/raw", "--json"]))["files"] == 1

    run_here(["copy", f"{url}/models/a", f"{url}/backup/a"])
    run_here(["copy", f"{url}/tables/clicks", "backup/clicks"])
    assert compare(contract_of(f"{url}/models/a"), contract_of(f"{url}/backup/a")) == []
    assert compare(contract_of("tables/clicks"), contract_of("backup/clicks")) == []
    assert json.loads(run_here(["gc", url, "--json"])) == []
    run_here(["rm", f"{url}/backup/a", "--yes"])
    assert [each["name"] for each in json.loads(run_here(["ls", f"{url}/models", f"{url}/tables", "--json"]))] == [
        f"{url}/models/a",
        f"{url}/tables/clicks",
    ]
