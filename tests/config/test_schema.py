"""Strict sections: what they accept, and how they report what is wrong."""

from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import AliasChoices, Field, ValidationError, field_validator, model_validator

from samovar.config.schema import Schema
from samovar.errors import ConfigError, UnknownKey


class Offline(Schema):
    table: str
    epoch_count: int = 1
    """How many passes
    over the table."""


class Online(Schema):
    table: str
    start_date: str


class EvalConf(Schema):
    name: str
    shifts: tuple[int, ...] = (24,)

    @field_validator("shifts")
    @classmethod
    def _refuse_zero(cls, shifts: tuple[int, ...]) -> tuple[int, ...]:
        if 0 in shifts:
            raise ValueError("shifts must be at least 1")
        return shifts


class Evaluation(Schema):
    eval_confs: tuple[EvalConf, ...] = ()
    by_name: dict[str, EvalConf] = Field(default_factory=dict)


class Local(Schema):
    kind: Literal["local"]
    path: Annotated[str, Field(min_length=1)]


class Remote(Schema):
    kind: Literal["remote"]
    host: Annotated[str, Field(pattern="^[a-z]+$")]


class Config(Schema):
    model_dir: Path = Field(validation_alias=AliasChoices("model_dir", "model_yt_dir"))
    train_data: Offline | Online
    evaluation: Evaluation | None = None
    rate: float | list[float] = 0.1
    kind: Literal["adam", "sgd"] = "adam"
    workers: Annotated[int, Field(gt=0)] | Literal["auto"] = "auto"
    is_loud: bool = False
    model: dict[str, Any] = Field(default_factory=dict)
    parent: "Config | None" = None
    store: Annotated[Local | Remote, Field(discriminator="kind")] | None = None

    @model_validator(mode="after")
    def _refuse_loud_sgd(self) -> "Config":
        if self.is_loud and self.kind == "sgd":
            raise ValueError("sgd is never loud: drop is_loud")
        return self


GOOD: dict[str, Any] = {"model_dir": "m", "train_data": {"table": "t"}}


def message(error: type[ConfigError] = ConfigError, /, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        Config.load({**GOOD, **changes}, "model.json")
    assert type(caught.value) is error
    return str(caught.value)


def test_a_good_config_is_loaded_with_its_defaults() -> None:
    config = Config.load(
        {**GOOD, "rate": 1, "evaluation": {"eval_confs": [{"name": "x", "shifts": [1, 2]}]}}, "model.json"
    )
    assert config.model_dir == Path("m")
    assert config.train_data == Offline(table="t")
    assert config.evaluation is not None
    assert config.evaluation.eval_confs[0].shifts == (1, 2)
    assert config.rate == 1.0


def test_the_older_name_of_a_key_is_accepted_but_not_beside_the_newer() -> None:
    tree = {"model_yt_dir": "m", "train_data": {"table": "t"}}
    assert Config.load(tree, "model.json").model_dir == Path("m")
    assert message(UnknownKey, model_yt_dir="n") == (
        "model.json: model_yt_dir: another name of 'model_dir', which is given too. Keep one of the two"
    )


def test_a_loaded_config_never_changes() -> None:
    config = Config.load(GOOD, "model.json")
    with pytest.raises(ValidationError):
        config.rate = 2.0


def test_a_wrong_type_is_reported_with_path_value_and_the_text_of_the_field() -> None:
    assert message(train_data={"table": "t", "epoch_count": "ten"}) == (
        "model.json: train_data.epoch_count must be an integer, got 'ten' (a string) (How many passes over the table)"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"train_data": []}, "train_data must be an object, got [] (a list)"),
        ({"model_dir": 3}, "model_dir must be a string, got 3 (an integer)"),
        ({"is_loud": 1}, "is_loud must be true or false, got 1 (an integer)"),
        (
            {"is_loud": "true"},
            "is_loud must be true or false, got 'true' (a string). Write true without quotes",
        ),
        (
            {"rate": "1e-3"},
            "rate must be a number or a list, got '1e-3' (a string). Write 1e-3 without quotes",
        ),
        ({"rate": [1, "x"]}, "rate[1] must be a number, got 'x' (a string)"),
        ({"kind": "Adam"}, "kind must be 'adam' or 'sgd', got 'Adam' (a string)"),
        (
            {"workers": -1},
            "workers must be at least 1 or 'auto', got -1",
        ),
        ({"workers": 3.0}, "workers must be an integer or 'auto', got 3.0 (a number). Write 3"),
        (
            {"workers": True},
            "workers must be an integer or 'auto', got true (a boolean)",
        ),
        ({"model": 3}, "model must be an object, got 3 (an integer)"),
        ({"is_loud": None}, "is_loud must be true or false, got null"),
        (
            {"evaluation": {"eval_confs": [{"name": "x"}, {"shifts": [1]}]}},
            "evaluation.eval_confs[1].name is missing",
        ),
        (
            {"evaluation": {"by_name": {"a.b": {"name": 3}}}},
            'evaluation.by_name["a.b"].name must be a string, got 3 (an integer)',
        ),
        (
            {"evaluation": {"eval_confs": [{"name": "x", "shifts": [0, 1]}]}},
            "evaluation.eval_confs[0].shifts: shifts must be at least 1, got [0, 1] (a list)",
        ),
        (
            {"store": {"kind": "moon", "host": "x"}},
            "store.kind must be one of 'local', 'remote', got 'moon'",
        ),
        (
            {"store": {"host": "x"}},
            "store.kind is missing",
        ),
        (
            {"store": {"kind": "local", "path": ""}},
            "store.path must have at least 1 character, got '' (a string)",
        ),
        (
            {"store": {"kind": "remote", "host": "?"}},
            "store.host must match pattern '^[a-z]+$', got '?' (a string)",
        ),
        ({"is_loud": True, "kind": "sgd"}, "sgd is never loud: drop is_loud"),
        (
            {"parent": {**GOOD, "is_loud": True, "kind": "sgd"}},
            "parent: sgd is never loud: drop is_loud",
        ),
    ],
)
def test_each_kind_of_mistake_has_its_own_message(changes: dict[str, Any], text: str) -> None:
    assert message(**changes) == f"model.json: {text}"


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    assert message(rate=float("nan")) == "rate: JSON cannot hold nan"


def test_an_unknown_key_names_the_nearest_one_by_full_path() -> None:
    assert message(UnknownKey, train_data={"table": "t", "epochs_count": 3}) == (
        "model.json: train_data.epochs_count: unknown key. Did you mean 'train_data.epoch_count'? "
        "Available: table, epoch_count"
    )
    assert message(UnknownKey, evaluation={"eval_confs": [{"name": "x", "shift": [1]}]}).endswith(
        "evaluation.eval_confs[0].shift: unknown key. Did you mean 'evaluation.eval_confs[0].shifts'? "
        "Available: name, shifts"
    )


def test_an_unknown_key_that_belongs_to_another_section_names_that_section() -> None:
    assert "epoch_count: unknown key. Did you mean 'train_data.epoch_count'? " in message(UnknownKey, epoch_count=3)
    assert "Did you mean 'kind'? " in message(UnknownKey, train_data={"table": "t", "kind": "sgd"})


def test_an_unknown_key_like_no_other_lists_the_known_ones() -> None:
    assert message(UnknownKey, zzz=1) == (
        "model.json: zzz: unknown key. Available: model_dir, train_data, evaluation, rate, kind, "
        "workers, is_loud, model, parent, store"
    )


def test_several_unknown_keys_are_one_error() -> None:
    text = message(UnknownKey, zzz=1, train_data={"table": "t", "epochs": 3})
    header, *lines = text.split("\n")
    assert header == "model.json: 2 problems:"
    assert [line.split(":")[0].strip() for line in lines] == ["train_data.epochs", "zzz"]


def test_all_problems_are_reported_at_once_in_the_order_of_the_schema() -> None:
    text = message(model_dir=1, train_data={"tabel": "t"}, rate="x", zzz=1)
    assert text == (
        "model.json: 4 problems:\n"
        "  model_dir must be a string, got 1 (an integer)\n"
        "  train_data.tabel: unknown key. Did you mean 'train_data.table'? Available: table, epoch_count\n"
        "  rate must be a number or a list, got 'x' (a string)\n"
        "  zzz: unknown key. Available: model_dir, train_data, evaluation, rate, kind, workers, "
        "is_loud, model, parent, store"
    )


def test_in_a_union_of_sections_the_closest_one_reports_the_error() -> None:
    assert message(train_data={"table": "t", "start_date": 2021}) == (
        "model.json: train_data.start_date must be a string, got 2021 (an integer)"
    )
    assert message(UnknownKey, train_data={"table": "t", "start_date": "2021", "epoch_count": 1}) == (
        "model.json: train_data.start_date: unknown key. Available: table, epoch_count"
    )


def test_the_json_schema_carries_the_texts_of_the_fields() -> None:
    field = Config.model_json_schema()["$defs"]["Offline"]["properties"]["epoch_count"]
    assert "How many passes" in field["description"]
