"""A target among the features is refused, unless the config allows it; one that may be missing is pointed out."""

from pathlib import Path
from typing import Any

import pytest
from tests.places import local
from tests.training.rows import COLUMNS, SCRIPT, make_frame
from tests.training.toys import OFFLINE, ONLINE, changed, make_hours, make_toy, run, run_well, write_table

import samovar

FEATURES = ["ad", "price", "clicked"]


@pytest.fixture
def folder(quick_path: Path) -> Path:
    write_table(quick_path / "clicks", make_hours([2, 1]))
    return quick_path


@pytest.mark.parametrize("config", [OFFLINE, ONLINE], ids=["offline", "online"])
def test_a_target_among_the_features_is_refused_and_leaves_nothing_behind(folder: Path, config: dict[str, Any]) -> None:
    request = make_toy(folder, config, {"train_data.features": FEATURES})
    ended = run(request)
    assert ended.code == 2
    assert "train_data: 'clicked' is a target and a feature, so the model would read the answer" in ended.output
    assert not local(request.out).exists()


def test_it_can_be_allowed_and_the_key_is_no_part_of_the_result(folder: Path) -> None:
    allowed = {"train_data.features": FEATURES, "train_data.allow_targets_as_features": True}
    out = run_well(make_toy(folder, OFFLINE, allowed))
    run_well(changed(make_toy(folder, OFFLINE, allowed), "model", {"train_data.allow_targets_as_features": False}))
    assert (out / "model").exists()


def test_an_evaluation_by_a_feature_is_refused_but_weights_may_be_features(folder: Path) -> None:
    def entry(**keys: Any) -> dict[str, Any]:
        return {"evaluation.eval_confs": [{"name": "seen", "table": "clicks", **keys}]}

    ended = run(make_toy(folder, OFFLINE, entry(targets=["price"])))
    assert ended.code == 2
    assert "evaluation.eval_confs[0]: 'price' is a target and a feature" in ended.output
    weighted = entry(weights="clicked", targets=["price"], features=["ad", "price", "clicked"])
    ended = run(make_toy(folder, OFFLINE, weighted))
    assert "'price' is a target and a feature" in ended.output
    run_well(make_toy(folder, OFFLINE, entry(weights="clicked", features=["ad", "price", "clicked"], targets=[])))


def test_targets_that_may_be_missing_are_pointed_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "model.py").write_text(SCRIPT)
    columns = {**COLUMNS, "clicked": {"number": {"missing": "indicator"}}}
    table = samovar.brew(make_frame(), tmp_path / "table", time="time", columns=columns, progress=False)
    samovar.train(tmp_path / "model.py", table, targets=["clicked"], model_dir=tmp_path / "model", num_threads=1)
    assert "rows without the target 'clicked' are trained as 0" in caplog.text
