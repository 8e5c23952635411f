"""The two ways to run the same stages: on this machine, or on an Apache Spark cluster. The report is the same."""

from llmprism.engine.interface import Engine, EngineName, RunOptions
from llmprism.engine.local import LocalEngine

__all__ = ["Engine", "EngineName", "LocalEngine", "RunOptions", "engine_named"]


def engine_named(name: EngineName, master: str | None = None) -> Engine:
    """The engine; `master` is the URL of a Spark cluster and belongs to the Spark engine alone."""
    from llmprism.errors import UsageError

    if name is EngineName.SPARK:
        from llmprism.engine.spark import SparkEngine

        return SparkEngine(master)
    if master is not None:
        raise UsageError("--master is the URL of a Spark cluster: it needs --engine spark")
    return LocalEngine()
