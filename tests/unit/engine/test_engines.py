import sys

import pytest

from llmprism.cli import main
from llmprism.engine import LocalEngine, RunOptions, engine_named
from llmprism.errors import UsageError
from support.reports import EXAMPLES

FLOWS = str(EXAMPLES / "slow_nic" / "flows.parquet")


def test_the_local_engine_is_the_default():
    assert isinstance(engine_named("local"), LocalEngine)


def test_a_master_needs_the_spark_engine():
    with pytest.raises(UsageError, match="--engine spark"):
        engine_named("local", "spark://head:7077")


def test_an_unknown_engine_is_refused():
    with pytest.raises(UsageError, match="local and spark"):
        engine_named("hadoop")


def test_without_pyspark_one_line_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "pyspark", None)
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    assert main(["diagnose", "--engine", "spark", FLOWS, "-q"]) == 1
    assert capsys.readouterr().err == (
        "error[usage]: --engine spark needs Apache Spark: pip install 'llmprism[spark]', and Java 17\n"
    )


def test_without_java_one_line_says_so(monkeypatch):
    pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setattr("pyspark.sql.SparkSession.getActiveSession", lambda: None)
    with pytest.raises(UsageError, match="needs Java"):
        engine_named("spark").diagnose([FLOWS], None, RunOptions())


@pytest.mark.parametrize(
    ("options", "said"),
    [(RunOptions(method="paper"), "only the method prism"), (RunOptions(memory_limit="1GB"), "local engine's")],
)
def test_what_spark_does_not_have_is_refused_before_it_starts(options, said):
    with pytest.raises(UsageError, match=said):
        engine_named("spark").diagnose([FLOWS], None, options)
