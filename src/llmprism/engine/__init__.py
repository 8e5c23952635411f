"""The two ways to run the same stages: on this machine, or on an Apache Spark cluster. The report is the same."""

from llmprism.engine.interface import ENGINES, Engine, RunOptions
from llmprism.engine.local import LocalEngine
from llmprism.errors import UsageError

__all__ = ["ENGINES", "Engine", "LocalEngine", "RunOptions", "engine_named"]


def engine_named(name: str, master: str | None = None) -> Engine:
    """The engine; `master` is the URL of a Spark cluster and belongs to the Spark engine alone."""
    if name not in ENGINES:
        raise UsageError(f"there is no engine {name!r}; there are {' and '.join(ENGINES)}")
    if name == "spark":
        from llmprism.engine.spark import SparkEngine

        return SparkEngine(master)
    if master is not None:
        raise UsageError("--master is the URL of a Spark cluster: it needs --engine spark")
    return LocalEngine()
