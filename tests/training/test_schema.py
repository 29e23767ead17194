from typing import Any

import pytest

from samovar.errors import ConfigError
from samovar.training.schema import OfflineConfig, OnlineConfig, load_config

# The configs of the seeds, with other names.
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


def test_every_key_of_the_seeds_is_known_and_the_pipeline_is_inferred() -> None:
    offline, online = load_config(OFFLINE, "offline.json"), load_config(ONLINE, "online.json")
    assert isinstance(offline, OfflineConfig)
    assert offline.model_dir == "//home/models/fake4"
    assert isinstance(online, OnlineConfig)
    assert online.train_data.hours == (1608670800, 1610928000)
    assert online.evaluation.eval_confs[1].shifts == (24,)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"pipeline": "sideways"}, "pipeline is 'sideways'; expected 'offline' or 'online'"),
        ({"train_data": {**ONLINE["train_data"], "epoch_count": 1}}, "is online, and 'epoch_count', which is offline"),
        ({"train_data": {"merge_tables": {"merge_keys": [], "tables": []}}}, "merge_keys"),
        ({"train_data": {"start_date": "2021-01-01"}}, "expected either table or merge_tables"),
        (
            {"train_data": {"table": "a", "start_date": "2021-01-02", "end_date": "2021-01-01"}},
            "start_date must be before end_date, got 2021-01-02 and 2021-01-01",
        ),
        ({"snapshotter": {"freqency": 1}}, "snapshotter.frequency"),
        ({"evaluation": {"eval_confs": [{"name": "a", "table": "t", "shifts": [1, 1]}]}}, "a shift is given twice"),
        ({"evaluation": {"eval_confs": [{"name": "a", "table": "t", "shifts": [1]}] * 2}}, "'a' is given twice"),
        (
            {"evaluation": {"eval_confs": [{"name": "val ", "table": "t", "shifts": [1]}]}},
            "ends with a space",
        ),
        ({"evaluation": {"eval_confs": [{"name": "a/b", "table": "t", "shifts": [1]}]}}, "expected a plain word"),
    ],
)
def test_what_does_not_fit_is_told(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config({**ONLINE, **change}, "online.json")
    assert message in str(caught.value)


def test_features_may_be_missing_in_one_merged_table_only() -> None:
    tables = [{"table": "a", "targets": []}, {"table": "b", "targets": []}]
    with pytest.raises(ConfigError, match="features are missing in several tables"):
        load_config({"train_data": {"merge_tables": {"merge_keys": ["k"], "tables": tables}}}, "online.json")
