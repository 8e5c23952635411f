"""One tree of errors. Each knows its slug (stable, documented in docs/reference/errors.md) and its exit code.

    LLMPrismError                 exit 1
    ├── InputError                a file that cannot be read or makes no sense
    │   ├── FormatError           the bytes are not what the name or --format says
    │   └── ColumnError           a required column is absent or of the wrong type
    ├── TopologyError             a topology that cannot be used
    ├── UsageError                arguments that contradict each other
    ├── OutputError               a file that cannot be written
    ├── ConfigError               a configuration file that cannot be used
    ├── EngineError               the Spark cluster could not do its part
    ├── StoreError                the service's store cannot be read or written
    └── LimitError                an input beyond a cap of limits.py

Library code raises them and never prints or exits; `cli` prints `str(error)` as one line.
"""

from __future__ import annotations

from typing import ClassVar

__all__ = [
    "ColumnError",
    "ConfigError",
    "EngineError",
    "FormatError",
    "InputError",
    "LLMPrismError",
    "LimitError",
    "OutputError",
    "StoreError",
    "TopologyError",
    "UsageError",
]


class LLMPrismError(Exception):
    """The root: the tool could not do its work."""

    slug: ClassVar[str] = "error"
    exit_code: ClassVar[int] = 1


class InputError(LLMPrismError):
    slug: ClassVar[str] = "input"


class FormatError(InputError):
    slug: ClassVar[str] = "format"


class ColumnError(InputError):
    slug: ClassVar[str] = "column"


class TopologyError(LLMPrismError):
    slug: ClassVar[str] = "topology"


class UsageError(LLMPrismError):
    slug: ClassVar[str] = "usage"


class OutputError(LLMPrismError):
    slug: ClassVar[str] = "output"


class LimitError(LLMPrismError):
    slug: ClassVar[str] = "limit"


class ConfigError(LLMPrismError):
    slug: ClassVar[str] = "config"


class StoreError(LLMPrismError):
    slug: ClassVar[str] = "store"


class EngineError(LLMPrismError):
    slug: ClassVar[str] = "engine"
