"""Types of arrays, by what they hold: one name per type, for the whole package."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bool", "Float64", "Int8", "Int32", "Int64", "UInt8", "UInt64"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]
