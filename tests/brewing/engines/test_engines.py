import os
import subprocess
import sys

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
    with pytest.raises(ConfigError, match=r"no engine 'polars'\. Available: duckdb, memory, spark"):
        find_engine("polars")


def test_spark_without_its_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(ConfigError, match=r"the Spark engine needs pyspark: pip install 'samovar\[spark\]'"):
        find_engine("spark")._open()  # type: ignore[attr-defined]  # of this engine


def test_spark_without_java_says_what_to_install() -> None:
    script = """
from samovar.brewing.engines import find_engine
from samovar.errors import ConfigError
try:
    find_engine("spark", options={"master": "local[1]"})._open()
except ConfigError as error:
    print(error)
"""
    nowhere = {"PATH": "/bin", "HOME": os.environ.get("HOME", "/"), "JAVA_HOME": "/nowhere"}
    done = subprocess.run([sys.executable, "-c", script], env=nowhere, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("the Spark engine needs Java 17 or newer: install it, for example")
