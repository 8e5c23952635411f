import sys

import pytest

from llmprism.cli import main
from llmprism.engine import LocalEngine, RunOptions, engine_named
from llmprism.engine.spark.session import explained
from llmprism.errors import EngineError, InputError, UsageError
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


@pytest.mark.parametrize(
    ("said", "kind", "shown"),
    [
        (
            "An error occurred while calling o25.parquet.\n: org.apache.spark.SparkException: "
            "[FAILED_READ_FILE.CANNOT_READ_FILE_FOOTER] Could not read f.parquet.\nIf not, convert it.",
            InputError,
            "Could not read f.parquet.",
        ),
        (
            "[PATH_NOT_FOUND] Path does not exist: s3a://flows/x. SQLSTATE: 42K03",
            InputError,
            "Path does not exist: s3a",
        ),
        (
            "[PYTHON_EXCEPTION] An exception was thrown\nTraceback (most recent call last):\n"
            "ModuleNotFoundError: No module named 'llmprism'\n SQLSTATE: 38000",
            EngineError,
            "Spark could not do its part: ModuleNotFoundError: No module named 'llmprism'",
        ),
        (
            "connection refused\nby the master",
            EngineError,
            "Spark could not do its part: connection refused by the master",
        ),
    ],
)
def test_what_spark_says_becomes_one_line(said, kind, shown):
    error = explained(said)
    assert type(error) is kind
    assert str(error).startswith(shown)
    assert "\n" not in str(error)
