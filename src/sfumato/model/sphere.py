"""Compiled geometry of the sphere: planar Laplace draws from random digits, steps, the lattice.

The mathematics and the error bound are in `sfumato.privacy.noise.planar`.

A draw takes two exponentials, an azimuth and a coin from a stream of 16-bit digits:

* `_exponential`: -ln U, U uniform. Sixteen leading zero bits (chance 2^-16) add 16 ln 2 and
  are drawn again with fresh bits, so that U keeps 48 significant bits however small it gets
  and the radius has no largest value.
* the azimuth is 64 bits of a turn;
* the coin accepts the radius with chance sin(r/R) / (r/R), which turns a density per metre
  of radius into one per square metre of the sphere. One digit decides, nearly always.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from sfumato.model.compiled import compiled

Digits = NDArray[np.uint16]
Position = NDArray[np.int64]
Floats = NDArray[np.float64]

EARTH_RADIUS_M = 6_371_008.8
"""Mean radius of the WGS84 ellipsoid; the sphere in whose metric the claim is exact."""
_R = EARTH_RADIUS_M
_TURN = 2.0 * math.pi
_LN_2_16 = 16.0 * math.log(2.0)
_2_48 = 2.0**-48
_2_64 = 2.0**-64
_2_16 = 2.0**-16
_WORD = 4


@compiled
def _exponential(digits: Digits, at: Position) -> float:
    """Exponential with mean one; the position runs past the end where digits are missing."""
    shift = 0.0
    while True:
        place = at[0]
        at[0] = place + _WORD
        if place + _WORD > digits.size:
            return 0.0
        first = digits[place]
        if first == 0:
            shift += _LN_2_16
            continue
        # 64 bits as a sum of two exact halves: the smaller one only rounds the last place.
        high = float(first) * 4294967296.0 + float(digits[place + 1]) * 65536.0
        high += float(digits[place + 2])
        uniform = high * _2_48 + (float(digits[place + 3]) + 0.5) * _2_64
        if uniform > 0.5:
            # 1 - U is exact here and log1p keeps what log would round away.
            rest = (281474976710656.0 - high) * _2_48
            rest -= (float(digits[place + 3]) + 0.5) * _2_64
            return shift - math.log1p(-rest)
        return shift - math.log(uniform)


@compiled
def _turn(digits: Digits, at: Position) -> float:
    """An azimuth in radians, uniform on the circle."""
    place = at[0]
    at[0] = place + _WORD
    if place + _WORD > digits.size:
        return 0.0
    high = float(digits[place]) * 65536.0 + float(digits[place + 1])
    low = float(digits[place + 2]) * 65536.0 + float(digits[place + 3])
    return (high * 4294967296.0 + low + 0.5) * _2_64 * _TURN


@compiled
def _coin(chance: float, digits: Digits, at: Position) -> bool:
    """Bernoulli(chance), digit by digit, to the last bit that a double holds."""
    low, width = 0.0, 1.0
    for _ in range(4):
        place = at[0]
        at[0] = place + 1
        if place >= digits.size:
            return False
        width *= _2_16
        low += float(digits[place]) * width
        if low + width <= chance:
            return True
        if low >= chance:
            return False
    return False


@compiled
def fill_polar(
    radius: Floats, azimuth: Floats, done: int, scale_m: float, digits: Digits, at: Position
) -> int:
    """Radius (metres) and azimuth (radians) from item `done` on; returns the items done."""
    for item in range(done, radius.size):
        while True:
            start = at[0]
            r = scale_m * (_exponential(digits, at) + _exponential(digits, at))
            turn = _turn(digits, at)
            angle = r / _R
            kept = angle < math.pi
            if kept:
                share = math.sin(angle) / angle if angle > 0.0 else 1.0
                kept = _coin(share, digits, at)
            if at[0] > digits.size:
                at[0] = start
                return item
            if kept:
                break
        radius[item] = r
        azimuth[item] = turn
    return radius.size


@compiled
def step_on_sphere(lon: Floats, lat: Floats, radius: Floats, azimuth: Floats) -> None:
    """Move each point (degrees) along a great circle, in place.

    Latitude comes from atan2 of the two legs and not from asin, which loses half its digits
    near a pole. At a pole the azimuth counts from the meridian of the point's own longitude.
    """
    for i in range(lon.size):
        phi, angle = math.radians(lat[i]), radius[i] / _R
        sin_phi, cos_phi = math.sin(phi), math.cos(phi)
        sin_a, cos_a = math.sin(angle), math.cos(angle)
        east = math.sin(azimuth[i]) * sin_a
        north = math.cos(azimuth[i]) * sin_a
        x = cos_phi * cos_a - sin_phi * north
        z = sin_phi * cos_a + cos_phi * north
        lat[i] = math.degrees(math.atan2(z, math.hypot(x, east)))
        turned = lon[i] + math.degrees(math.atan2(east, x))
        lon[i] = turned - 360.0 * math.floor((turned + 180.0) / 360.0)


@compiled
def snap(
    lon: Floats,
    lat: Floats,
    per_degree: int,
    steps: NDArray[np.int64],
    row: NDArray[np.int64],
    column: NDArray[np.int64],
) -> None:
    """Nearest point of the public lattice, as whole numbers of 1/per_degree degrees."""
    around = 360 * per_degree
    for i in range(lon.size):
        r = min(max(math.floor(lat[i] * per_degree + 0.5), -90 * per_degree), 90 * per_degree)
        wide = row_step(r, per_degree, steps)
        c = math.floor(lon[i] * per_degree / wide + 0.5) * wide
        c = (c + around // 2) % around - around // 2
        row[i], column[i] = r, c


@compiled
def row_step(row: int, per_degree: int, steps: NDArray[np.int64]) -> int:
    """Least divisor of the full circle that makes a cell at least half as wide as high."""
    height = math.cos(math.radians(row / per_degree))
    if height >= 0.5:
        return 1
    need = 0.5 / height if height > 1e-12 else np.inf
    low, high = 0, steps.size - 1
    while low < high:
        middle = (low + high) // 2
        if steps[middle] >= need:
            high = middle
        else:
            low = middle + 1
    return int(steps[low])


@compiled
def great_circle(lon: Floats, lat: Floats, other_lon: Floats, other_lat: Floats) -> Floats:
    """Metres on the sphere between pairs of points (degrees)."""
    found = np.empty(lon.size)
    for i in range(lon.size):
        a, b = math.radians(lat[i]), math.radians(other_lat[i])
        across = math.sin(math.radians(other_lon[i] - lon[i]) / 2.0)
        up = math.sin((b - a) / 2.0)
        h = up * up + math.cos(a) * math.cos(b) * across * across
        found[i] = 2.0 * _R * math.asin(min(1.0, math.sqrt(h)))
    return found
