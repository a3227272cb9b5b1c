"""What one text means: an instant, a number, a readable name. Compiled, value by value.

Each value is judged by its own bytes. Times are ISO 8601 (`2007-09-10T13:05:00+02:00`, seconds
and fraction may be left out, a space may stand for the T), or plain decimal numbers where the
schema or an option says that numbers are written. Every result is exact: instants are whole
microseconds, rounded down; coordinates are the double nearest to what is written.

The compiled loops read plain arrays; Arrow columns become these without a copy where possible.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from sfumato.model.compiled import compiled, inlined

Array = NDArray[Any]
Int = Any
"""A machine integer: to the type checker neither Python's nor numpy's."""

_ALL_VALID = np.empty(0, np.bool_)


def validity(column: Any) -> NDArray[np.bool_]:
    """True where the column has a value; empty where it has one everywhere."""
    if column.null_count == 0:
        return _ALL_VALID
    mask: NDArray[np.bool_] = column.is_valid().to_numpy(zero_copy_only=False)
    return mask


def numbers(column: Any, dtype: Any) -> NDArray[Any]:
    """Values of a fixed-width column; what stands at a null is arbitrary."""
    size = len(column)
    if size == 0 or column.buffers()[1] is None:
        return np.zeros(size, dtype)
    values = np.frombuffer(column.buffers()[1], dtype=dtype)
    return values[column.offset : column.offset + size]


def bytes_of(column: Any) -> tuple[NDArray[Any], NDArray[np.uint8]]:
    """Offsets and bytes of a text or binary column; what stands at a null is arbitrary."""
    kind = column.type
    wide = pa.types.is_large_string(kind) or pa.types.is_large_binary(kind)
    if not (wide or pa.types.is_string(kind) or pa.types.is_binary(kind)):
        column = column.cast(pa.large_binary())
        wide = True
    size = len(column)
    if size == 0:
        return np.zeros(1, np.int64), np.empty(0, np.uint8)
    _, offsets, data = column.buffers()
    if offsets is None or offsets.size == 0:  # all missing
        return np.zeros(size + 1, np.int64), np.empty(0, np.uint8)
    positions = np.frombuffer(offsets, dtype=np.int64 if wide else np.int32)
    window = positions[column.offset : column.offset + size + 1]
    if data is None or data.size == 0:
        return window, np.empty(0, np.uint8)
    return window, np.frombuffer(data, dtype=np.uint8)


@inlined
def word_at(data: Array, at: Int) -> Int:
    """Eight bytes as one number. An unsigned index keeps this a single load."""
    at = np.uintp(at)
    word = np.uint64(data[at])
    word |= np.uint64(data[at + np.uintp(1)]) << np.uint64(8)
    word |= np.uint64(data[at + np.uintp(2)]) << np.uint64(16)
    word |= np.uint64(data[at + np.uintp(3)]) << np.uint64(24)
    word |= np.uint64(data[at + np.uintp(4)]) << np.uint64(32)
    word |= np.uint64(data[at + np.uintp(5)]) << np.uint64(40)
    word |= np.uint64(data[at + np.uintp(6)]) << np.uint64(48)
    word |= np.uint64(data[at + np.uintp(7)]) << np.uint64(56)
    return word


@inlined
def put_word(out: Array, at: Int, word: Int) -> None:
    """The same back: a single store."""
    at = np.uintp(at)
    out[at] = np.uint8(word)
    out[at + np.uintp(1)] = np.uint8(word >> np.uint64(8))
    out[at + np.uintp(2)] = np.uint8(word >> np.uint64(16))
    out[at + np.uintp(3)] = np.uint8(word >> np.uint64(24))
    out[at + np.uintp(4)] = np.uint8(word >> np.uint64(32))
    out[at + np.uintp(5)] = np.uint8(word >> np.uint64(40))
    out[at + np.uintp(6)] = np.uint8(word >> np.uint64(48))
    out[at + np.uintp(7)] = np.uint8(word >> np.uint64(56))


@compiled
def longest(ends: Array) -> Int:
    """Bytes of the longest value."""
    most = ends[0] - ends[0]
    for i in range(np.uintp(ends.size - 1)):
        most = max(most, ends[i + np.uintp(1)] - ends[i])
    return most


def without_rows(column: Any, gone: NDArray[np.bool_]) -> Any:
    """The column with nulls where `gone` is true."""
    if not gone.any():
        return column
    valid = ~gone
    there = validity(column)
    if there.size:
        valid &= there
    if column.offset:  # a bitmap of our own needs a column that begins with its buffers
        column = pa.concat_arrays([column])
        if column.offset:
            column = column.take(pa.array(np.arange(len(column))))
    mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
    return pa.Array.from_buffers(column.type, len(column), [mask, *column.buffers()[1:]])


FAR = 1 << 62
"""An instant outside every period: infinite, or too large for the arithmetic."""
BAD = -(1 << 62)
"""Not a time."""

_DAY = 86_400_000_000
_HOUR = 3_600_000_000
_MINUTE = 60_000_000
_SECOND = 1_000_000
_INSTANT, _CLOCK, _NEITHER = 0, 1, 2


@compiled
def _digits(data: Array, at: Int, count: Int) -> Int:
    """`count` decimal digits as a number, -1 where one is none."""
    value = np.int64(0)
    for k in range(at, at + count):
        digit = np.int64(data[k]) - 48
        if digit < 0 or digit > 9:
            return -1
        value = value * 10 + digit
    return value


@compiled
def _day_number(year: Int, month: Int, day: Int) -> Int:
    """Days since 1970-01-01 of a date of the Gregorian calendar, a large number if it is none."""
    if month < 1 or month > 12 or day < 1 or day > 31:
        return FAR
    leap = (year % 4 == 0 and year % 100 != 0) or year % 400 == 0
    longest = 31
    if month == 4 or month == 6 or month == 9 or month == 11:
        longest = 30
    elif month == 2:
        longest = 29 if leap else 28
    if day > longest:
        return FAR
    # The year begins in March, so that the leap day is its last.
    y = year - 1 if month <= 2 else year
    era = y // 400
    of_era = y - era * 400
    of_year = (153 * (month - 3 if month > 2 else month + 9) + 2) // 5 + day - 1
    return era * 146_097 + of_era * 365 + of_era // 4 - of_era // 100 + of_year - 719_468


@compiled
def _iso(data: Array, start: Int, stop: Int) -> tuple[Int, Int]:
    """Microseconds of an ISO 8601 text, and whether it is an instant, a clock's, or neither.

    24:00 is the midnight that ends the day. Offsets are below 18 hours.
    """
    bad = (np.int64(0), np.int64(_NEITHER))
    if stop - start < 16 or stop - start > 40:
        return bad
    year, month = _digits(data, start, 4), _digits(data, start + 5, 2)
    day, hour = _digits(data, start + 8, 2), _digits(data, start + 11, 2)
    minute = _digits(data, start + 14, 2)
    if year < 0 or month < 0 or day < 0 or hour < 0 or minute < 0:
        return bad
    if data[start + 4] != 45 or data[start + 7] != 45 or data[start + 13] != 58:
        return bad
    if data[start + 10] != 84 and data[start + 10] != 32:
        return bad
    at = start + 16
    second = np.int64(0)
    fraction = np.int64(0)
    if at < stop and data[at] == 58:
        if stop - at < 3:
            return bad
        second = _digits(data, at + 1, 2)
        if second < 0:
            return bad
        at += 3
        if at < stop and data[at] == 46:
            at += 1
            count = 0
            while at < stop and 48 <= data[at] <= 57:
                if count < 6:
                    fraction = fraction * 10 + np.int64(data[at]) - 48
                count += 1
                at += 1
            if count == 0 or count > 9:
                return bad
            while count < 6:
                fraction *= 10
                count += 1
    midnight = hour == 24 and minute == 0 and second == 0 and fraction == 0
    if minute > 59 or second > 59 or (hour > 23 and not midnight):
        return bad
    days = _day_number(year, month, day)
    if days == FAR:
        return bad
    value = days * _DAY + hour * _HOUR + minute * _MINUTE + second * _SECOND + fraction
    left = stop - at
    if left == 0:
        return value, np.int64(_CLOCK)
    if left == 1 and data[at] == 90:
        return value, np.int64(_INSTANT)
    if left == 4 and data[at] == 32 and data[at + 1] == 85 and data[at + 2] == 84:
        if data[at + 3] == 67:
            return value, np.int64(_INSTANT)
        return bad
    if left != 3 and left != 5 and left != 6:
        return bad
    if data[at] != 43 and data[at] != 45:
        return bad
    hours = _digits(data, at + 1, 2)
    minutes = np.int64(0)
    if left > 3:
        if left == 6 and data[at + 3] != 58:
            return bad
        minutes = _digits(data, stop - 2, 2)
    if hours < 0 or hours > 17 or minutes < 0 or minutes > 59:
        return bad
    offset = hours * _HOUR + minutes * _MINUTE
    return (value - offset if data[at] == 43 else value + offset), np.int64(_INSTANT)


@compiled
def _epoch(data: Array, start: Int, stop: Int, multiply: Int, divide: Int) -> Int:
    """Microseconds of a plain decimal number of time units; `BAD` if it is none."""
    at = start
    negative = False
    if at < stop and (data[at] == 43 or data[at] == 45):
        negative = data[at] == 45
        at += 1
    whole = np.int64(0)
    count = 0
    reach = np.int64((FAR - 1) // multiply)
    far = False
    while at < stop and 48 <= data[at] <= 57:
        count += 1
        if whole > reach // 10 - 1:
            far = True
        else:
            whole = whole * 10 + np.int64(data[at]) - 48
        at += 1
    if count == 0 or count > 19:
        return np.int64(BAD)
    fraction = np.int64(0)
    count = 0
    if at < stop and data[at] == 46:
        at += 1
        while at < stop and 48 <= data[at] <= 57:
            fraction = fraction * 10 + np.int64(data[at]) - 48
            count += 1
            at += 1
            if count > 9:
                return np.int64(BAD)
    if at != stop:
        return np.int64(BAD)
    if far:
        return np.int64(FAR)
    while count < 9:
        fraction *= 10
        count += 1
    part = fraction * multiply  # below 10^15
    value = whole * multiply + part // 1_000_000_000
    if negative:
        value = -value - (1 if part % 1_000_000_000 else 0)
    return value // divide


@compiled
def instants(
    ends: Array,
    data: Array,
    numbers: Array,
    multiply: Int,
    divide: Int,
    breaks: Array,
    offsets: Array,
    out: Array,
) -> None:
    """Microseconds of each text; `numbers` says which are plain numbers (one entry: all alike).

    Times on a clock become instants by the table of `sfumato.model.time_grid`; without one
    (`offsets` empty) they are no times.
    """
    for i in range(out.size):
        start, stop = np.int64(ends[i]), np.int64(ends[i + 1])
        if numbers[i if numbers.size > 1 else 0]:
            out[i] = _epoch(data, start, stop, multiply, divide)
            continue
        value, kind = _iso(data, start, stop)
        if kind == _CLOCK and offsets.size:
            value -= offsets[np.searchsorted(breaks, value, side="right")]
        elif kind != _INSTANT:
            value = np.int64(BAD)
        out[i] = value


_POWERS = 10.0 ** np.arange(23)
EXACT, SLOW, NO_NUMBER = 0, 1, 2


@compiled
def decimals(ends: Array, data: Array, powers: Array, out: Array, how: Array) -> None:
    """Doubles of decimal texts, NaN for what is none.

    Up to 15 digits and powers of ten up to 22, one multiplication or division of exact doubles
    is correctly rounded; other numbers are marked SLOW, for a reader of any number of digits.
    """
    for i in range(out.size):
        at, stop = np.int64(ends[i]), np.int64(ends[i + 1])
        out[i] = np.nan
        how[i] = NO_NUMBER
        negative = False
        if at < stop and (data[at] == 43 or data[at] == 45):
            negative = data[at] == 45
            at += 1
        mantissa = np.int64(0)
        digits = 0
        significant = 0
        power = np.int64(0)
        while at < stop and 48 <= data[at] <= 57:
            digits += 1
            if significant or data[at] != 48:
                significant += 1
            if significant <= 15:
                mantissa = mantissa * 10 + np.int64(data[at]) - 48
            at += 1
        if at < stop and data[at] == 46:
            at += 1
            while at < stop and 48 <= data[at] <= 57:
                digits += 1
                if significant or data[at] != 48:
                    significant += 1
                if significant <= 15:
                    mantissa = mantissa * 10 + np.int64(data[at]) - 48
                    power -= 1
                at += 1
        if digits == 0:
            continue
        if at < stop and (data[at] == 69 or data[at] == 101):
            at += 1
            sign = 1
            if at < stop and (data[at] == 43 or data[at] == 45):
                sign = -1 if data[at] == 45 else 1
                at += 1
            count = 0
            exponent = np.int64(0)
            while at < stop and 48 <= data[at] <= 57:
                exponent = min(exponent * 10 + np.int64(data[at]) - 48, np.int64(9999))
                count += 1
                at += 1
            if count == 0:
                continue
            power += sign * exponent
        if at != stop:
            continue
        if significant > 15 or power > 22 or power < -22:
            how[i] = SLOW
            continue
        how[i] = EXACT
        value = float(mantissa)
        value = value * powers[power] if power >= 0 else value / powers[-power]
        out[i] = -value if negative else value


def doubles(ends: Array, data: Array) -> NDArray[np.float64]:
    """Doubles of decimal texts, NaN for what is none."""
    out = np.empty(ends.size - 1, np.float64)
    how = np.empty(out.size, np.uint8)
    decimals(ends, data, _POWERS, out, how)
    for i in np.flatnonzero(how == SLOW):  # seventeen digits and more: rare
        out[i] = float(bytes(data[int(ends[i]) : int(ends[i + 1])]))
    return out


@compiled
def readable(ends: Array, data: Array, longest: Int, out: Array) -> None:
    """Whether each value is UTF-8 (no surrogates, nothing overlong) and not too long."""
    for i in range(out.size):
        at, stop = np.int64(ends[i]), np.int64(ends[i + 1])
        good = stop - at <= longest
        while good and at < stop:
            byte = data[at]
            if byte < 0x80:
                at += 1
                continue
            more, low, high = 0, 0x80, 0xBF
            if 0xC2 <= byte <= 0xDF:
                more = 1
            elif 0xE0 <= byte <= 0xEF:
                more = 2
                low = 0xA0 if byte == 0xE0 else 0x80
                high = 0x9F if byte == 0xED else 0xBF
            elif 0xF0 <= byte <= 0xF4:
                more = 3
                low = 0x90 if byte == 0xF0 else 0x80
                high = 0x8F if byte == 0xF4 else 0xBF
            else:
                good = False
                break
            if at + more >= stop:
                good = False
                break
            for k in range(1, more + 1):
                byte = data[at + k]
                if byte < low or byte > high:
                    good = False
                low, high = 0x80, 0xBF
            at += more + 1
        out[i] = good
