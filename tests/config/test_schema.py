"""Strict sections: what they accept, and how they tell what is wrong."""

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
            raise ValueError("shifts are hours from 1 on: remove 0")
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
        "model.json: model_yt_dir: unknown key, or rather another name of 'model_dir', which is given too: "
        "keep one of the two"
    )


def test_a_loaded_config_never_changes() -> None:
    config = Config.load(GOOD, "model.json")
    with pytest.raises(ValidationError):
        config.rate = 2.0


def test_a_wrong_type_is_told_with_path_found_expected_and_the_text_of_the_field() -> None:
    assert message(train_data={"table": "t", "epoch_count": "ten"}) == (
        "model.json: train_data.epoch_count: found 'ten' (a string), expected an integer: "
        "change the value (How many passes over the table.)"
    )


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"train_data": []}, "train_data: found [] (a list), expected an object: change the value"),
        ({"model_dir": 3}, "model_dir: found 3 (an integer), expected a string: change the value"),
        ({"is_loud": 1}, "is_loud: found 1 (an integer), expected true or false: change the value"),
        (
            {"is_loud": "true"},
            "is_loud: found 'true' (a string), expected true or false: write true without quotes",
        ),
        (
            {"rate": "1e-3"},
            "rate: found '1e-3' (a string), expected a number or a list: write 1e-3 without quotes",
        ),
        ({"rate": [1, "x"]}, "rate[1]: found 'x' (a string), expected a number: change the value"),
        ({"kind": "Adam"}, "kind: found 'Adam' (a string), expected 'adam' or 'sgd': change the value"),
        (
            {"workers": -1},
            "workers: found -1 (an integer), expected a value greater than 0 or 'auto': change the value",
        ),
        ({"workers": 3.0}, "workers: found 3.0 (a number), expected an integer or 'auto': write 3"),
        (
            {"workers": True},
            "workers: found true (a boolean), expected an integer or 'auto': change the value",
        ),
        ({"model": 3}, "model: found 3 (an integer), expected an object: change the value"),
        ({"is_loud": None}, "is_loud: found null, expected true or false: change the value"),
        (
            {"evaluation": {"eval_confs": [{"name": "x"}, {"shifts": [1]}]}},
            "evaluation.eval_confs[1].name: found nothing, expected a value: add the key",
        ),
        (
            {"evaluation": {"by_name": {"a.b": {"name": 3}}}},
            'evaluation.by_name["a.b"].name: found 3 (an integer), expected a string: change the value',
        ),
        (
            {"evaluation": {"eval_confs": [{"name": "x", "shifts": [0, 1]}]}},
            "evaluation.eval_confs[0].shifts: found [0, 1] (a list): shifts are hours from 1 on: remove 0",
        ),
        (
            {"store": {"kind": "moon", "host": "x"}},
            "store: found an object with the keys kind, host, expected 'kind' to be 'local', 'remote': "
            "change the value",
        ),
        (
            {"store": {"host": "x"}},
            "store: found an object with the keys host, expected 'kind' to be there: change the value",
        ),
        (
            {"store": {"kind": "local", "path": ""}},
            "store.path: found '' (a string), expected at least 1 character: change the value",
        ),
        (
            {"store": {"kind": "remote", "host": "?"}},
            "store.host: found '?' (a string), expected pattern '^[a-z]+$': change the value",
        ),
        ({"is_loud": True, "kind": "sgd"}, "sgd is never loud: drop is_loud"),
        (
            {"parent": {**GOOD, "is_loud": True, "kind": "sgd"}},
            "parent: sgd is never loud: drop is_loud",
        ),
    ],
)
def test_each_kind_of_mistake_has_its_own_words(changes: dict[str, Any], text: str) -> None:
    assert message(**changes) == f"model.json: {text}"


def test_a_value_that_json_cannot_hold_is_refused() -> None:
    assert message(rate=float("nan")) == "rate: found nan, which JSON cannot hold: use plain values"


def test_an_unknown_key_names_the_nearest_one_by_full_path() -> None:
    assert message(UnknownKey, train_data={"table": "t", "epochs_count": 3}) == (
        "model.json: train_data.epochs_count: unknown key, expected one of table, epoch_count: "
        "did you mean 'train_data.epoch_count'?"
    )
    assert message(UnknownKey, evaluation={"eval_confs": [{"name": "x", "shift": [1]}]}).endswith(
        "evaluation.eval_confs[0].shift: unknown key, expected one of name, shifts: "
        "did you mean 'evaluation.eval_confs[0].shifts'?"
    )


def test_an_unknown_key_that_belongs_to_another_section_names_that_section() -> None:
    assert message(UnknownKey, epoch_count=3).endswith("did you mean 'train_data.epoch_count'?")
    assert message(UnknownKey, train_data={"table": "t", "kind": "sgd"}).endswith("did you mean 'kind'?")


def test_an_unknown_key_like_no_other_is_to_be_removed() -> None:
    assert message(UnknownKey, zzz=1) == (
        "model.json: zzz: unknown key, expected one of model_dir, train_data, evaluation, rate, kind, "
        "workers, is_loud, model, parent, store: remove it"
    )


def test_several_unknown_keys_are_one_error() -> None:
    text = message(UnknownKey, zzz=1, train_data={"table": "t", "epochs": 3})
    header, *lines = text.split("\n")
    assert header == "model.json: 2 problems, each to be mended in the config or with --conf:"
    assert [line.split(":")[0].strip() for line in lines] == ["train_data.epochs", "zzz"]


def test_every_problem_is_told_at_once_in_the_order_of_the_schema() -> None:
    text = message(model_dir=1, train_data={"tabel": "t"}, rate="x", zzz=1)
    assert text == (
        "model.json: 5 problems, each to be mended in the config or with --conf:\n"
        "  model_dir: found 1 (an integer), expected a string: change the value\n"
        "  train_data.table: found nothing, expected a value: add the key\n"
        "  train_data.tabel: unknown key, expected one of table, epoch_count: "
        "did you mean 'train_data.table'?\n"
        "  rate: found 'x' (a string), expected a number or a list: change the value\n"
        "  zzz: unknown key, expected one of model_dir, train_data, evaluation, rate, kind, workers, "
        "is_loud, model, parent, store: remove it"
    )


def test_in_a_union_of_sections_the_closest_one_speaks() -> None:
    assert message(train_data={"table": "t", "start_date": 2021}) == (
        "model.json: train_data.start_date: found 2021 (an integer), expected a string: change the value"
    )
    assert message(UnknownKey, train_data={"table": "t", "start_date": "2021", "epoch_count": 1}) == (
        "model.json: train_data.start_date: unknown key, expected one of table, epoch_count: remove it"
    )


def test_the_json_schema_carries_the_texts_of_the_fields() -> None:
    field = Config.model_json_schema()["$defs"]["Offline"]["properties"]["epoch_count"]
    assert "How many passes" in field["description"]
