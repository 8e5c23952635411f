"""Our frozen dataclasses ↔ simple values (mappings, lists, scalars), driven by their type hints.

How results travel between processes and machines, whatever carries them: Arrow's columns between the machines of a
Spark cluster (`arrow_codec`), JSON text between the workers of the live service. A dataclass becomes a mapping with the
same fields; enumerations travel as their values, tuples as lists, tuples of fixed length as mappings `part0, part1,
...`, mappings as lists of keys and values, unions as a mapping of which one `choice` is set. Arrays become a mapping of
their `shape` and `values`; what the values look like is the carrier's choice. Nothing but data travels: reading it back
runs no code of the sender's, as pickle would.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

__all__ = [
    "SCALARS",
    "array_dtype",
    "from_values",
    "is_array",
    "is_record",
    "item_hint",
    "to_values",
    "typed_fields",
    "union_choices",
]

SCALARS: Final = (int, float, bool, str)

PackValues = Callable[[NDArray[Any]], Any]
"""A one-dimensional array → what the carrier takes for its values."""
UnpackValues = Callable[[Any, np.dtype[Any], int], NDArray[Any]]
"""What the carrier gives back, the type of the elements and their number → a one-dimensional array."""


def to_values(value: Any, hint: Any, pack: PackValues) -> Any:
    """The value as mappings, lists and scalars."""
    if value is None:
        return None
    if hint in SCALARS:
        return hint(value)  # of numpy's scalars too
    if is_array(hint):
        array = np.ascontiguousarray(value, dtype=array_dtype(hint))
        return {"shape": list(array.shape), "values": pack(array.ravel())}
    if isinstance(value, Enum):
        return value.value
    if is_record(hint):
        return {name: to_values(getattr(value, name), inner, pack) for name, inner in typed_fields(hint)}
    choices = union_choices(hint)
    if len(choices) == 1:
        return to_values(value, choices[0], pack)
    if choices:
        chosen = next(i for i, choice in enumerate(choices) if isinstance(value, get_origin(choice) or choice))
        return {f"choice{chosen}": to_values(value, choices[chosen], pack)}
    if get_origin(hint) is dict:
        return [to_values(item, item_hint(hint), pack) for item in value.items()]
    inner = get_args(hint)
    if get_origin(hint) is list or (len(inner) == 2 and inner[1] is ...):
        return [to_values(one, inner[0], pack) for one in value]
    return {f"part{i}": to_values(one, part, pack) for i, (one, part) in enumerate(zip(value, inner, strict=True))}


def from_values(values: Any, hint: Any, unpack: UnpackValues) -> Any:
    """The value that `to_values` made this of; KeyError, TypeError or ValueError where it cannot be one."""
    if values is None:
        if types.NoneType not in get_args(hint):
            raise TypeError(f"nothing where {hint} belongs")
        return None
    if hint in SCALARS:
        return _scalar(values, hint)
    if is_array(hint):
        shape = tuple(_scalar(side, int) for side in values["shape"])
        return unpack(values["values"], array_dtype(hint), int(np.prod(shape, dtype=object))).reshape(shape)
    if isinstance(hint, type) and issubclass(hint, Enum):
        return hint(values)
    if is_record(hint):
        return hint(**{name: from_values(values[name], inner, unpack) for name, inner in typed_fields(hint)})
    choices = union_choices(hint)
    if len(choices) == 1:
        return from_values(values, choices[0], unpack)
    if choices:
        named = ((values.get(f"choice{i}"), choice) for i, choice in enumerate(choices))
        return next((from_values(given, choice, unpack) for given, choice in named if given is not None), None)
    if get_origin(hint) is dict:
        return dict(from_values(item, item_hint(hint), unpack) for item in values)
    inner = get_args(hint)
    if get_origin(hint) is list:
        return [from_values(one, inner[0], unpack) for one in values]
    if len(inner) == 2 and inner[1] is ...:
        return tuple([from_values(one, inner[0], unpack) for one in values])
    return tuple([from_values(values[f"part{i}"], part, unpack) for i, part in enumerate(inner)])


def _scalar(values: Any, kind: Any) -> Any:
    if type(values) is kind or (kind is float and type(values) is int):
        return kind(values)
    raise TypeError(f"{type(values).__name__} where {kind.__name__} belongs")


def is_array(hint: Any) -> bool:
    return get_origin(hint) is np.ndarray


def is_record(hint: Any) -> bool:
    return is_dataclass(hint)


def array_dtype(hint: Any) -> np.dtype[Any]:
    kind: np.dtype[Any] = np.dtype(get_args(get_args(hint)[1])[0])
    return kind


def item_hint(hint: Any) -> Any:
    """The hint of one key of a mapping and its value."""
    return tuple[get_args(hint)]  # type: ignore[misc]


def union_choices(hint: Any) -> Sequence[Any]:
    """What a union is made of besides None; empty for everything else."""
    if get_origin(hint) not in (Union, types.UnionType):
        return ()
    return [choice for choice in get_args(hint) if choice is not types.NoneType]


@cache
def typed_fields(kind: Any) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in fields(kind))
