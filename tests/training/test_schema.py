"""The schema of a training config: what it accepts, and how mistakes are reported."""

import subprocess
import sys
from typing import Any

import pytest

from samovar.errors import ConfigError
from samovar.training.schema import OfflineConfig, OnlineConfig, load_config

OFFLINE: dict[str, Any] = {
    "model_yt_dir": "//home/models/fake4",
    "snapshotter": {"frequency": 3600},
    "train_data": {
        "epoch_count": 10,
        "table": "//home/train",
        "max_iter": 100,
        "uri_granularity": 3000,
        "features": ["context_0", "reply_0"],
        "targets": [],
        "num_downloaders": 6,
        "num_parsers": 3,
        "max_cache_size": 536870912,
    },
}
ONLINE: dict[str, Any] = {
    "model_yt_dir": "//home/models/clicks",
    "model": {"any": {"thing": [1, 2]}},
    "train_data": {
        "datetime_format": "%Y%m%d%H%M",
        "start_date": "202012222100",
        "end_date": "202101180000",
        "table": "//home/train",
        "targets": ["IsClick"],
    },
    "evaluation": {
        "eval_confs": [
            {
                "name": "train",
                "keys": ["HitLogID", "BannerID"],
                "table": "//home/train",
                "datetime_format": "%Y%m%d%H%M",
                "start_date": "202101110000",
                "end_date": "202101180000",
                "shifts": [1],
            },
            {
                "name": "merged",
                "merge_tables": {
                    "merge_keys": ["HitLogID", "BannerID"],
                    "tables": [
                        {"table": "//home/a", "targets": ["IsClick"], "keys": ["HitLogID", "BannerID", "ShowTime"]},
                        {"table": "//home/b", "features": ["PageID", "ImpID"], "targets": []},
                    ],
                },
                "shifts": [24],
                "max_memory": 62949672960,
            },
        ]
    },
    "ttl_filter": {"frequency": 30},
    "snapshotter": {"frequency": 7200},
}


def test_every_documented_key_is_known_and_the_pipeline_is_inferred() -> None:
    offline, online = load_config(OFFLINE, "offline.json"), load_config(ONLINE, "online.json")
    assert isinstance(offline, OfflineConfig)
    assert offline.model_dir == "//home/models/fake4"
    assert isinstance(online, OnlineConfig)
    assert online.train_data.hours == (1608670800, 1610928000)
    assert online.evaluation.eval_confs[1].shifts == (24,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pipeline": "sideways"}, "pipeline must be 'offline' or 'online', got 'sideways'"),
        (
            {"train_data": {**ONLINE["train_data"], "epoch_count": 1}},
            "has the online key 'datetime_format' and the offline key 'epoch_count'",
        ),
        ({"train_data": {"merge_tables": {"merge_keys": [], "tables": []}}}, "merge_keys"),
        ({"train_data": {"start_date": "2021-01-01"}}, "expected either table or merge_tables, got neither"),
        (
            {"train_data": {"table": "a", "start_date": "2021-01-02", "end_date": "2021-01-01"}},
            "start_date must be before end_date, got 2021-01-02 and 2021-01-01",
        ),
        ({"snapshotter": {"freqency": 1}}, "snapshotter.frequency"),
        (
            {"evaluation": {"eval_confs": [{"name": "a", "table": "t", "shifts": [1, 1]}]}},
            "shifts must be unique, got 1, 1",
        ),
        (
            {"evaluation": {"eval_confs": [{"name": "a", "table": "t", "shifts": [1]}] * 2}},
            "names must be unique, got 'a' twice",
        ),
        (
            {"evaluation": {"eval_confs": [{"name": "val ", "table": "t", "shifts": [1]}]}},
            "ends with a space",
        ),
        (
            {"evaluation": {"eval_confs": [{"name": "a/b", "table": "t", "shifts": [1]}]}},
            "name 'a/b' must work as a folder name, without slashes",
        ),
    ],
)
def test_a_wrong_value_is_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**ONLINE, **change}, "online.json")
    assert message in str(caught.value)


def test_only_one_merged_table_may_omit_features() -> None:
    tables = [{"table": "a", "targets": []}, {"table": "b", "targets": []}]
    with pytest.raises(ConfigError, match="only one table may omit features"):
        load_config({"train_data": {"merge_tables": {"merge_keys": ["k"], "tables": tables}}}, "online.json")


def test_the_schema_can_be_imported_without_heavy_packages() -> None:
    """The generated reference and light commands read it."""
    code = "import sys, samovar.training.schema; print(*sys.modules)"
    modules = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout.split()
    heavy = {"torch", "pyarrow", "duckdb", "samovar.brewing"}
    assert "samovar.training.schema" in modules
    assert heavy.isdisjoint(modules), heavy.intersection(modules)
