"""String columns: builds JSON documents from their parts in Arrow, without a loop in Python.

Arrays are built from buffers, scalars from arrays: pa.array and pa.scalar import pandas, a second per Python worker.
"""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from local.simulator.rng import Ints, Mask

Text = Any
"""An Arrow array of strings."""

_STRING = pa.string()
_KINDS = {np.dtype(kind.to_pandas_dtype()): kind for kind in (pa.uint8(), pa.int8(), pa.int32(), pa.int64())}
# Two digits at a time.
_HEX = np.frombuffer("".join(f"{byte:02x}" for byte in range(256)).encode(), np.uint16)


def joined(*parts: str | Text) -> Text:
    """Concatenate columns and constants, row by row."""
    return pc.binary_join_element_wise(*map(_operand, parts), _operand(""))


def _operand(part: str | Text) -> Any:
    return _constant(part) if isinstance(part, str) else part


@cache
def _constant(text: str) -> Any:
    return words(text)[0]


def numbers(values: Ints) -> Text:
    """Format integers."""
    return column(values).cast(pa.string())


def taken(table: Any, rows: Ints) -> Any:
    """Return some rows of an Arrow array."""
    return table.take(column(rows))


def chosen(which: Mask, yes: str | Text, no: str | Text) -> Text:
    """Choose from one column or the other, row by row."""
    return pc.if_else(column(which.astype(np.uint8)).cast(pa.bool_()), _operand(yes), _operand(no))


def column(values: NDArray[Any]) -> Any:
    """Convert numbers to an Arrow array."""
    return pa.Array.from_buffers(_KINDS[values.dtype], len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])


def words(*values: str) -> Text:
    """Build a column of strings."""
    return octets([value.encode() for value in values]).cast(pa.string())


def octets(values: Sequence[bytes]) -> Any:
    """Build a column of bytes."""
    ends = np.cumsum([0, *map(len, values)]).astype(np.int32)
    buffers = [None, pa.py_buffer(ends), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.binary(), len(values), buffers)


def fixed(characters: NDArray[np.uint8], kind: Any = _STRING) -> Any:
    """Convert each row of bytes to a value of a string or binary type."""
    n, width = characters.shape
    offsets = np.arange(0, (n + 1) * width, width, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(characters))
    return pa.Array.from_buffers(kind, n, [None, pa.py_buffer(offsets), data])


def hexed(prefix: str, octets: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return each row of bytes as a prefix and hexadecimal digits, in ASCII codes."""
    n, width = octets.shape
    digits = _HEX[octets].view(np.uint8).reshape(n, 2 * width)
    return np.hstack([np.tile(np.frombuffer(prefix.encode(), np.uint8), (n, 1)), digits])
