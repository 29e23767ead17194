import pytest

from samovar.brewing.engines import Engine, find_engine
from samovar.errors import ConfigError
from samovar.testing.engine import EngineContract


class TestMemoryEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return find_engine("memory")


class TestDuckDBEngine(EngineContract):
    @pytest.fixture
    def engine(self) -> Engine:
        return find_engine("duckdb")


def test_an_unknown_engine_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ConfigError, match=r"no engine 'polars'\. Available: duckdb, memory"):
        find_engine("polars")
