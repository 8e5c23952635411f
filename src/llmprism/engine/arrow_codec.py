"""Our frozen dataclasses ↔ Arrow, driven by their type hints: how results travel between machines.

A dataclass becomes a struct with the same fields; arrays keep their shape and every bit of their values (NaN included);
enumerations travel as their values, tuples as lists, tuples of fixed length as structs, mappings as lists of keys and
values, unions as a struct of which one field is set. Nothing but data travels: reading it back runs no code of the
sender's, as pickle would.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum, IntEnum
from functools import cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
import pyarrow as pa

__all__ = ["arrow_type", "decode", "encode", "spark_type"]

T = TypeVar("T")

_SCALARS: Final[dict[object, pa.DataType]] = {
    int: pa.int64(),
    float: pa.float64(),
    bool: pa.bool_(),
    str: pa.string(),
}
_SPARK: Final = {
    pa.int8(): "tinyint",
    pa.int32(): "int",
    pa.int64(): "bigint",
    pa.float64(): "double",
    pa.bool_(): "boolean",
    pa.string(): "string",
}


def encode(values: Iterable[T], kind: type[T]) -> pa.Array:
    """A struct array with one row per value."""
    hint: Any = kind
    return pa.array([_arrow_value(value, hint) for value in values], type=arrow_type(hint))


def decode(array: pa.Array | pa.ChunkedArray, kind: type[T]) -> list[T]:
    """The values of a struct array that `encode` made."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [_value(chunk, row, kind) for chunk in chunks for row in range(len(chunk))]


def spark_type(kind: pa.DataType) -> str:
    """The type in Spark's own notation."""
    if pa.types.is_struct(kind):
        inner = (f"{field.name}:{spark_type(field.type)}" for field in kind)
        return f"struct<{','.join(inner)}>"
    if pa.types.is_list(kind):
        return f"array<{spark_type(kind.value_type)}>"
    return _SPARK[kind]


@cache
def arrow_type(hint: Any) -> pa.DataType:
    """The Arrow type of values with this type hint."""
    if hint in _SCALARS:
        return _SCALARS[hint]
    if _is_array(hint):
        return pa.struct([("shape", pa.list_(pa.int64())), ("values", pa.list_(pa.from_numpy_dtype(_dtype(hint))))])
    if isinstance(hint, type) and issubclass(hint, Enum):
        return pa.int64() if issubclass(hint, IntEnum) else pa.string()
    if _is_dataclass(hint):
        return pa.struct([(name, arrow_type(inner)) for name, inner in _fields(hint)])
    choices = _choices(hint)
    if len(choices) == 1:
        return arrow_type(choices[0])
    if choices:
        return pa.struct([(f"choice{i}", arrow_type(choice)) for i, choice in enumerate(choices)])
    if get_origin(hint) is dict:
        return pa.list_(arrow_type(_item(hint)))
    if get_origin(hint) is list:
        return pa.list_(arrow_type(get_args(hint)[0]))
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if len(inner) == 2 and inner[1] is ...:
            return pa.list_(arrow_type(inner[0]))
        return pa.struct([(f"part{i}", arrow_type(part)) for i, part in enumerate(inner)])
    raise TypeError(f"{hint!r} has no form in Arrow")


def _arrow_value(value: Any, hint: Any) -> Any:
    """The value as what pyarrow takes for the type of the hint."""
    if value is None or hint in _SCALARS:
        return value
    if _is_array(hint):
        return {"shape": value.shape, "values": np.ascontiguousarray(value, dtype=_dtype(hint)).ravel()}
    if isinstance(value, Enum):
        return value.value
    if _is_dataclass(hint):
        return {name: _arrow_value(getattr(value, name), inner) for name, inner in _fields(hint)}
    choices = _choices(hint)
    if len(choices) == 1:
        return _arrow_value(value, choices[0])
    if choices:
        chosen = next(i for i, choice in enumerate(choices) if isinstance(value, get_origin(choice) or choice))
        return {f"choice{chosen}": _arrow_value(value, choices[chosen])}
    if get_origin(hint) is dict:
        return [_arrow_value(item, _item(hint)) for item in value.items()]
    inner = get_args(hint)
    if get_origin(hint) is list or (len(inner) == 2 and inner[1] is ...):
        return [_arrow_value(one, inner[0]) for one in value]
    return {f"part{i}": _arrow_value(one, part) for i, (one, part) in enumerate(zip(value, inner, strict=True))}


def _value(array: pa.Array, row: int, hint: Any) -> Any:
    """The value with this hint in one row of an array."""
    if not array[row].is_valid:
        return None
    if hint in _SCALARS:
        return array[row].as_py()
    if _is_array(hint):
        shape = array.field("shape")[row].as_py()
        values = array.field("values")[row].values
        return values.to_numpy(zero_copy_only=False).astype(_dtype(hint)).reshape(shape)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(array[row].as_py())
    if _is_dataclass(hint):
        return hint(**{name: _value(array.field(name), row, inner) for name, inner in _fields(hint)})
    choices = _choices(hint)
    if len(choices) == 1:
        return _value(array, row, choices[0])
    if choices:
        names = ((f"choice{i}", choice) for i, choice in enumerate(choices))
        return next(_value(array.field(n), row, c) for n, c in names if array.field(n)[row].is_valid)
    if get_origin(hint) is dict:
        return dict(_values(array[row].values, _item(hint)))
    inner = get_args(hint)
    if get_origin(hint) is list:
        return _values(array[row].values, inner[0])
    if len(inner) == 2 and inner[1] is ...:
        return tuple(_values(array[row].values, inner[0]))
    return tuple(_value(array.field(f"part{i}"), row, part) for i, part in enumerate(inner))


def _values(array: pa.Array, hint: Any) -> list[Any]:
    if hint in _SCALARS:
        values: list[Any] = array.to_pylist()
        return values
    return [_value(array, row, hint) for row in range(len(array))]


def _item(hint: Any) -> Any:
    """The hint of one key and its value."""
    return tuple[get_args(hint)]  # type: ignore[misc]


def _is_array(hint: Any) -> bool:
    return get_origin(hint) is np.ndarray


def _is_dataclass(hint: Any) -> bool:
    return is_dataclass(hint)


def _dtype(hint: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(get_args(get_args(hint)[1])[0])
    return kind


def _choices(hint: Any) -> Sequence[Any]:
    """What a union is made of besides None; empty for everything else."""
    if get_origin(hint) not in (Union, types.UnionType):
        return ()
    return [choice for choice in get_args(hint) if choice is not types.NoneType]


@cache
def _fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
