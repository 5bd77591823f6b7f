"""Values of a log as numbers, with points or commas for decimals; what is not a number is never guessed."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from surefooted.tables.space import Bools, Floats, Ints

MISSING, NO_NUMBER, UNKNOWN, BELOW, ABOVE = -1, -2, -3, -5, -6  # in place of an index
NUMBER = r"(?i)^[+-]?((\d+\.?\d*|\.\d+)(e[+-]?\d+)?|inf(inity)?|nan)$"


def numbers(column: pa.Array, decimal: str = ".") -> tuple[Floats, Ints]:
    """Each value as a float, and its status: 0, MISSING or NO_NUMBER.

    If decimals are written with commas, a value with a point is no number: it could be 1.234 or 1234.
    """
    status = np.where(bools(column.is_null()), MISSING, 0)
    is_text = pa.types.is_string(column.type)
    try:
        if decimal == "," and is_text:
            raise pa.ArrowInvalid("commas")
        values = column.cast(pa.float64(), safe=False)
    except pa.ArrowInvalid:  # some text is not a number
        column = pc.utf8_trim_whitespace(column)
        blank = pc.equal(column, "").fill_null(True)
        if decimal == ",":
            column = pc.replace_substring(pc.replace_substring(column, ".", "?"), ",", ".")
        column = pc.if_else(pc.match_substring_regex(column, NUMBER), column, pa.scalar(None, pa.string()))
        status = np.where(bools(blank), MISSING, np.where(bools(column.is_null()), NO_NUMBER, 0))
        values = column.cast(pa.float64())
    return np.array(values.fill_null(np.nan)), status


def binned(values: Floats, status: Ints, edges: Floats, size: int) -> Ints:
    """The bin of each value, or a negative number; with as many edges as bins, the last bin has no upper end.

    Bin i is edges[i] <= value < edges[i + 1]. If there is one more edge than bins, it belongs to the last bin.
    """
    index = np.searchsorted(edges, values, side="right") - 1
    index = np.where(index < 0, BELOW, index)
    if edges.size == size + 1:
        index = np.where(index >= size, np.where(values == edges[-1], size - 1, ABOVE), index)
    index = np.where(np.isnan(values), UNKNOWN, index)
    return np.where(status < 0, status, index)


def bools(column: pa.Array) -> Bools:
    """A column of true and false as an array."""
    mask: Bools = column.to_numpy(zero_copy_only=False)
    return mask
