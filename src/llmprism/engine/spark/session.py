"""A Spark session with the settings that the tasks rely on, and Spark's errors in one line."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llmprism.errors import EngineError, InputError, LLMPrismError, UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["DEFAULT_MASTER", "explained", "spark_session", "start_session"]

WORKER_PYTHON: Final = "PYSPARK_PYTHON"
"""The environment variable by which Spark finds the Python of its workers."""

DEFAULT_MASTER: Final = "local[*]"
"""All cores of this machine: what runs without a cluster."""

ARROW_ROWS: Final = 100_000
"""Records handed over at once; rows of pairs are larger and Spark ends their batches at 64 MB."""

SETTINGS: Final = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.caseSensitive": "true",
    "spark.sql.legacy.parquet.nanosAsLong": "true",
    "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_ROWS),
}
"""Times are read as they were written, names keep their case, and results come as Arrow."""

START_SETTINGS: Final = {
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "ERROR",
    "spark.executorEnv.NUMBA_NUM_THREADS": "1",
}
"""Only for a session of our own: stderr belongs to the user, and a task has one core."""

LONGEST: Final = 300
"""Characters of a Spark message that are shown."""


@contextmanager
def spark_session(master: str | None) -> Iterator[SparkSession]:
    """The session that is active (as under spark-submit), or one of our own, which ends with the context."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError("--engine spark needs Apache Spark: pip install 'llmprism[spark]', and Java 17") from None
    active = SparkSession.getActiveSession()
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if active is None and not submitted and not _java():
        raise UsageError("--engine spark needs Java 17 or newer: install it or set JAVA_HOME")
    try:
        session = active or start_session(master or (None if submitted else DEFAULT_MASTER))
        for name, value in SETTINGS.items():
            session.conf.set(name, value)
        try:
            yield session
        finally:
            if active is None:
                session.stop()
    except LLMPrismError:
        raise
    except (PySparkException, Py4JError) as error:
        raise explained(str(error)) from error


def _java() -> bool:
    home = os.environ.get("JAVA_HOME")
    return bool(home and (Path(home) / "bin" / "java").exists()) or shutil.which("java") is not None


def start_session(master: str | None, **settings: str) -> SparkSession:
    """A session of our own; `settings` (with `_` for `.`) go before ours. None: what spark-submit says."""
    from pyspark.sql import SparkSession

    chosen = {**START_SETTINGS, **{name.replace("_", "."): value for name, value in settings.items()}}
    builder = SparkSession.builder.appName("llmprism")
    local = master is not None and master.startswith("local")
    if local:  # the executors are processes of this machine and run this very program
        chosen = {"spark.ui.enabled": "false", "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path)} | chosen
    for name, value in chosen.items():
        builder = builder.config(name, value)
    if master is not None:
        builder = builder.master(master)
    before = os.environ.get(WORKER_PYTHON)
    try:
        if local:
            os.environ.setdefault(WORKER_PYTHON, sys.executable)
        return builder.getOrCreate()
    finally:
        if before is None:
            os.environ.pop(WORKER_PYTHON, None)


def explained(text: str) -> LLMPrismError:
    """Spark's message in one line, by what it is about."""
    python = re.findall(r"^[A-Za-z_][\w.]*(?:Error|Exception): .*$", text, re.MULTILINE)
    stated = re.search(r"\[([A-Z][A-Z0-9_.]+)\] ?([^\n]*)", text)
    condition, line = (stated[1], stated[2]) if stated else ("", text)
    if condition.startswith(_READING):
        return InputError(_one_line(line))
    return EngineError(f"Spark could not do its part: {_one_line(python[-1] if python else line)}")


_READING: Final = ("PATH_NOT_FOUND", "UNABLE_TO_INFER_SCHEMA", "FAILED_READ_FILE", "CANNOT_MERGE_SCHEMAS")
"""Spark's conditions that are about the input."""


def _one_line(text: str) -> str:
    return " ".join(text.split())[:LONGEST]
