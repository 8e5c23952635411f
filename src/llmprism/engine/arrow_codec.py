"""Our frozen dataclasses ↔ Arrow, driven by their type hints: how results travel between machines of a Spark cluster.

The values of `value_codec` as Arrow's structs and lists; arrays keep their shape and every bit of their values
(NaN included).
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum, IntEnum
from functools import cache
from typing import Any, Final, TypeVar, get_args, get_origin

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from llmprism.engine.value_codec import (
    array_dtype,
    from_values,
    is_array,
    is_record,
    item_hint,
    to_values,
    typed_fields,
    union_choices,
)

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
    return pa.array([to_values(value, hint, lambda array: array) for value in values], type=arrow_type(hint))


def decode(array: pa.Array | pa.ChunkedArray, kind: type[T]) -> list[T]:
    """The values of a struct array that `encode` made."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    return [from_values(_values(chunk, row), kind, _numbers) for chunk in chunks for row in range(len(chunk))]


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
    if is_array(hint):
        return pa.struct(
            [("shape", pa.list_(pa.int64())), ("values", pa.list_(pa.from_numpy_dtype(array_dtype(hint))))]
        )
    if isinstance(hint, type) and issubclass(hint, Enum):
        return pa.int64() if issubclass(hint, IntEnum) else pa.string()
    if is_record(hint):
        return pa.struct([(name, arrow_type(inner)) for name, inner in typed_fields(hint)])
    choices = union_choices(hint)
    if len(choices) == 1:
        return arrow_type(choices[0])
    if choices:
        return pa.struct([(f"choice{i}", arrow_type(choice)) for i, choice in enumerate(choices)])
    if get_origin(hint) is dict:
        return pa.list_(arrow_type(item_hint(hint)))
    if get_origin(hint) is list:
        return pa.list_(arrow_type(get_args(hint)[0]))
    if get_origin(hint) is tuple:
        inner = get_args(hint)
        if len(inner) == 2 and inner[1] is ...:
            return pa.list_(arrow_type(inner[0]))
        return pa.struct([(f"part{i}", arrow_type(part)) for i, part in enumerate(inner)])
    raise TypeError(f"{hint!r} has no form in Arrow")


def _values(array: pa.Array, row: int) -> Any:
    """One row as simple values; the long columns of arrays stay Arrow's."""
    if not array[row].is_valid:
        return None
    if pa.types.is_struct(array.type):
        names = [field.name for field in array.type]
        if names == ["shape", "values"]:
            return {"shape": array.field("shape")[row].as_py(), "values": array.field("values")[row].values}
        return {name: _values(array.field(name), row) for name in names}
    if pa.types.is_list(array.type):
        inner = array[row].values
        if pa.types.is_nested(inner.type):
            return [_values(inner, one) for one in range(len(inner))]
        return inner.to_pylist()
    return array[row].as_py()


def _numbers(values: Any, dtype: np.dtype[Any], _count: int) -> NDArray[Any]:
    numbers: NDArray[Any] = values.to_numpy(zero_copy_only=False).astype(dtype)
    return numbers
