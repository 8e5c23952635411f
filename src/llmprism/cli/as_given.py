"""Values on the command line that are taken as they are given.

typer converts every value with pydantic, strings too and options that are not given: importing it and making a
converter for each option takes as long as importing numpy. Texts, lists of them, options that are not given and the
defaults of enumerations need no conversion; whatever else there is typer still converts.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

__all__ = ["without_conversion"]


def without_conversion(command: Any) -> None:
    """Makes the options and arguments of a command take texts as they are; `--help`, which typer adds, is one too."""
    params_of = command.get_params

    def get_params(ctx: Any) -> list[Any]:
        params: list[Any] = params_of(ctx)
        for one in params:
            if getattr(one, "_runtime_param", ...) is None:
                one._runtime_param = _AsGiven()
        return params

    command.get_params = get_params


class _AsGiven:
    """Stands where typer keeps the converter of one option, and makes way for it when it is needed."""

    def coerce(self, value: Any, param: Any, ctx: Any) -> Any:
        several = param.multiple or param.nargs == -1
        if value is None:
            return () if several else None
        wanted = param.type_descriptor
        special = wanted.is_path or wanted.is_file or wanted.parameter_info.parser is not None
        if not special and wanted.annotation is str and type(value) is str:
            return value
        if not special and several and wanted.annotation == list[str] and isinstance(value, (list, tuple)):
            return [str(one) for one in value]
        if isinstance(value, Enum) and type(value) is wanted.annotation:
            return value
        param._runtime_param = None
        return param.get_runtime_param().coerce(value, param=param, ctx=ctx)
