"""Texts to instants, numbers and names: what the compiled rules say is what Python says."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sfumato.io import values
from sfumato.io.rows import RowRules
from sfumato.io.values import BAD, FAR
from sfumato.model.events import EventColumns, Reading, TimeEncoding, UserEncoding

STEADY = settings(derandomize=True, deadline=None, max_examples=80)
MICRO = timedelta(microseconds=1)
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def times(texts: list[bytes], encoding: TimeEncoding, tz: str | None = None) -> list[int]:
    """Microseconds by the rules of rows."""
    columns = EventColumns("u", "t", "p")
    reading = Reading(columns, encoding, UserEncoding.TEXT, tz, time_is_text=True)
    rules = RowRules(reading, UserEncoding.TEXT, coordinates=False)
    column = pa.array(texts, pa.binary())
    other = pa.array([b"x"] * len(texts))
    return rules.positions({"u": other, "t": column, "p": other}).time.tolist()


def packed(texts: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    ends = np.cumsum([0, *map(len, texts)]).astype(np.int64)
    return ends, np.frombuffer(b"".join(texts) or b"\0", np.uint8)


# --- ISO 8601 ----------------------------------------------------------------------------------

_ISO = re.compile(
    r"(\d{4})-(\d\d)-(\d\d)[T ](\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?"
    r"(Z| UTC|[+-]\d\d(?::?\d\d)?)?",
    re.ASCII,
)


def iso(text: bytes, tz: str | None) -> int:
    """The same rule, slowly and with Python's own calendar."""
    try:
        found = _ISO.fullmatch(text.decode())
    except UnicodeDecodeError:
        return BAD
    if found is None or len(text) > 40:
        return BAD
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    micro = int((fraction or "0").ljust(6, "0")[:6])
    midnight = (hour, minute, int(second or 0), int(fraction or 0)) == ("24", "00", 0, 0)
    try:
        moment = datetime(int(year), int(month), int(day), 0 if midnight else int(hour),
                          int(minute), int(second or 0), micro)  # fmt: skip
    except ValueError:
        return BAD
    clock = (moment - datetime(1970, 1, 1)) // MICRO + (86_400_000_000 if midnight else 0)
    if zone is None:
        if tz is None:
            return BAD
        aware = (datetime(1970, 1, 1) + clock * MICRO).replace(tzinfo=ZoneInfo(tz))
        return (aware - EPOCH) // MICRO
    if zone in ("Z", " UTC"):
        return clock
    digits = zone[1:].replace(":", "").ljust(4, "0")
    hours, minutes = int(digits[:2]), int(digits[2:])
    if hours > 17 or minutes > 59:
        return BAD
    offset = (hours * 3600 + minutes * 60) * 1_000_000
    return clock - offset if zone[0] == "+" else clock + offset


MOMENTS = st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30))
OFFSETS = st.integers(-17 * 60 - 59, 17 * 60 + 59).map(lambda m: timezone(timedelta(minutes=m)))


@STEADY
@given(
    MOMENTS,
    st.none() | OFFSETS,
    st.sampled_from(["minutes", "seconds", "milliseconds", "microseconds"]),
    st.sampled_from(" T"),
)
def test_whatever_datetime_writes_is_read_back(
    moment: datetime, zone: timezone | None, precision: str, between: str
) -> None:
    text = moment.replace(tzinfo=zone).isoformat(between, precision).encode()
    cut = datetime.fromisoformat(text.decode())
    aware = cut.replace(tzinfo=zone or UTC)
    assert times([text], TimeEncoding.ISO, "UTC") == [(aware - EPOCH) // MICRO]
    if zone is None:
        assert times([text], TimeEncoding.ISO) == [BAD]


@STEADY
@given(
    st.text("0123456789-:T .+ZUC", min_size=14, max_size=42) | st.from_regex(_ISO, fullmatch=True)
)
def test_any_text_is_the_time_that_the_slow_rule_says(text: str) -> None:
    raw = text.encode()
    assert times([raw], TimeEncoding.ISO, "UTC") == [iso(raw, "UTC")]
    assert times([raw], TimeEncoding.ISO) == [iso(raw, None)]


@pytest.mark.parametrize(
    "text",
    [
        *("2024-02-29T00:00Z", "2023-02-29T00:00Z", "1900-02-29T00:00Z", "2000-02-29T00:00Z"),
        *("2024-01-01T24:00Z", "2024-01-01T24:00:00.0Z", "2024-01-01T24:00:01Z"),
        *("2024-12-31T24:00+17:59", "2024-01-01T00:00+18:00", "2024-01-01T00:00-17:60"),
        *("2024-01-01T23:59:60Z", "2024-01-01T00:60Z", "2024-00-01T00:00Z", "2024-01-32T00:00Z"),
        *("2024-01-01T00:00:00.123456789Z", "2024-01-01T00:00:00.1234567890Z"),
        *("2024-01-01T00:00:00.Z", "2024-01-01T00:00:0Z", "2024-01-01T00:00 utc", "2024-01-01"),
        *("2024-01-01T00:00:00+1", "2024-01-01T00:00:00+0:00", "2024-01-01T00:00:00+00-00"),
        *("", "2024-01-01T00:00:00 Europe/Paris", "2024-01-01t00:00:00Z", "+2024-01-01T00:00Z"),
        *("٢٠٢٤-01-01T00:00:00Z", "2024-01-01T00:00:00Z ", " 2024-01-01T00:00:00Z"),
    ],
)
def test_times_at_the_edge(text: str) -> None:
    assert times([text.encode()], TimeEncoding.ISO, "UTC") == [iso(text.encode(), "UTC")]


@STEADY
@given(
    st.datetimes(datetime(1970, 1, 2), datetime(2037, 1, 1)),
    st.sampled_from(["Europe/Paris", "America/St_Johns", "Australia/Lord_Howe", "Asia/Kathmandu"]),
)
def test_clocks_are_read_as_python_reads_them(moment: datetime, tz: str) -> None:
    """The earlier reading of an hour that comes twice, as `fold=0` says."""
    moment = moment.replace(microsecond=0)
    local = moment.replace(tzinfo=ZoneInfo(tz))
    there_and_back = local.astimezone(UTC).astimezone(ZoneInfo(tz)).replace(tzinfo=None)
    if there_and_back == moment:  # hours that the clock skips have no reading of their own
        raw = moment.isoformat().encode()
        assert times([raw], TimeEncoding.ISO, tz) == [(local - EPOCH) // MICRO]


# --- numbers -----------------------------------------------------------------------------------

UNITS = {"epoch_s": 10**6, "epoch_ms": 10**3, "epoch_us": 1, "epoch_ns": Fraction(1, 1000)}
_NUMBER = re.compile(r"[+-]?\d{1,19}(\.\d{0,9})?", re.ASCII)


def epoch(text: bytes, scale: int | Fraction) -> int | None:
    """Microseconds; nothing where the rule may say far instead."""
    if not text.isascii() or not _NUMBER.fullmatch(text.decode()):
        return BAD
    exact = Fraction(Decimal(text.decode()))
    # The digits are scaled to microseconds and below first, so nanoseconds lose their fraction.
    value = exact * scale if scale != Fraction(1, 1000) else Fraction(math.floor(exact)) * scale
    return None if abs(value) > FAR // 20 else math.floor(value)


@STEADY
@given(
    st.from_regex(re.compile(r"[+-]?[0-9]{0,20}(\.[0-9]{0,10})?", re.ASCII), fullmatch=True)
    | st.text("0123456789.+-eE_ ", max_size=22),
    st.sampled_from(list(UNITS)),
)
def test_epoch_texts_are_exact_and_rounded_down(text: str, unit: str) -> None:
    (found,) = times([text.encode()], TimeEncoding(unit))
    expected = epoch(text.encode(), UNITS[unit])
    if expected is None:
        assert found == FAR or abs(found) > FAR // 21_000
    else:
        assert found == expected


DIGITS = re.compile(r"[+-]?[0-9]{0,25}\.?[0-9]{0,25}([eE][+-]?[0-9]{1,4})?", re.ASCII)
FLOATS = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)


@STEADY
@given(
    st.lists(
        st.floats().map(repr)
        | st.decimals(allow_nan=False, allow_infinity=False).map(str)
        | st.from_regex(DIGITS, fullmatch=True)
        | st.text("0123456789.+-eE_ infa", max_size=12),
        min_size=1,
        max_size=20,
    )
)
def test_decimals_are_the_doubles_of_python(texts: list[str]) -> None:
    found = values.doubles(*packed([text.encode() for text in texts]))
    for text, value in zip(texts, found.tolist(), strict=True):
        if FLOATS.fullmatch(text):
            assert value == float(text), text
            assert math.copysign(1, value) == math.copysign(1, float(text))
        else:
            assert math.isnan(value), text


# --- names -------------------------------------------------------------------------------------

PIECES = [b"\x7f", b"\x80", b"\xbf", b"\xc0", b"\xc1", b"\xc2", b"\xdf", b"\xe0", b"\xa0", b"\x9f"]
PIECES += [b"\xed", b"\xef", b"\xf0", b"\x90", b"\x8f", b"\xf4", b"\xf5", b"\xff", b"a", b"\0"]


@STEADY
@given(
    st.lists(
        st.binary(max_size=12) | st.lists(st.sampled_from(PIECES), max_size=6).map(b"".join),
        min_size=1,
        max_size=30,
    )
)
def test_readable_is_what_python_decodes(texts: list[bytes]) -> None:
    good = np.empty(len(texts), np.bool_)
    values.readable(*packed(texts), 10, good)
    for text, fine in zip(texts, good.tolist(), strict=True):
        try:
            text.decode("utf-8")
            expected = len(text) <= 10
        except UnicodeDecodeError:
            expected = False
        assert fine == expected, text
