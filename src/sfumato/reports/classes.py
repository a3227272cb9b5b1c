"""Classes of a map and their colours: the same on the page and in figures.

Bounds lie at quantiles of all hours, with more classes at the busy end, on numbers that read well,
so that a colour means the same in every hour. They are computed here and given to the page. Colours
run from pale yellow over blue-green to indigo in OKLCH (Ottosson 2020), their lightness falling
steadily, so that they read in grey and with every kind of colour blindness;
`assets/js/colours.js` holds the same scale, and one for dark screens.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from sfumato.published.release import Release
from sfumato.reports.encode import areas_km2, deflated
from sfumato.reports.steps import step_for

Table = NDArray[np.float64]

_SHARES = (0.12, 0.32, 0.53, 0.73, 0.88, 0.97)
_ROUND = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8, 10)
_SAMPLE = 20_011
"""Values that bounds are read from, about; a prime, so that a stride meets every hour."""
_STOPS = (
    (0.965, 0.045, 105), (0.89, 0.095, 128), (0.78, 0.115, 165), (0.65, 0.115, 212),
    (0.52, 0.125, 248), (0.39, 0.135, 272), (0.27, 0.11, 285),
)  # fmt: skip
FADE = 0.72
"""How far the colour of an uncertain count is mixed with the ground, here and on the page."""


def measured(release: Release, areas: Sequence[float] | None = None) -> dict[str, Table]:
    """What a map can show: `count`, and `density` (per km²) where places have areas.

    Counts are rounded as the page rounds them and areas as it holds them (`areas`, where the page
    is made already), so that a count that lies on a bound falls into the same class in a figure.
    """
    return per_area(_rounded(release, release.values), _areas(release, areas))


def sampled(release: Release, areas: Sequence[float] | None = None) -> dict[str, Table]:
    """The cells of `measured` that bounds are read from: the same bounds, and no tables."""
    values = release.values
    cells = np.arange(0, values.size, max(1, values.size // _SAMPLE))
    places = cells // max(values.shape[1], 1)
    return per_area(_rounded(release, values.ravel()[cells]), _areas(release, areas), places)


def _rounded(release: Release, values: Table) -> Table:
    per = round(1 / step_for(release.values, release.lower, release.upper))
    counts = values * per
    np.rint(counts, out=counts)
    counts /= per
    return counts


def _areas(release: Release, areas: Sequence[float] | None) -> Sequence[float] | None:
    if areas is None and release.geometry is not None:
        return areas_km2(release.geometry)
    return areas


def per_area(
    counts: Table, areas: Sequence[float] | None, places: NDArray[np.int64] | None = None
) -> dict[str, Table]:
    """The measures of such counts: of all places, or each of the place that is given."""
    if areas is None or not any(area > 0 for area in areas):
        return {"count": counts}
    known = np.array([area if area > 0 else np.nan for area in areas])
    each = known[:, None] if places is None else known[places]
    return {"density": counts / each, "count": counts}


def class_bounds(tables: Iterable[Table]) -> list[float]:
    """Rising bounds between the classes of some tables; one class more than bounds."""
    parts = [table.ravel()[:: max(1, table.size // _SAMPLE)] for table in tables]
    known = np.concatenate(parts) if parts else np.empty(0)
    known = known[np.isfinite(known)]
    if not known.size:
        return []
    found: list[float] = []
    for value in np.quantile(known, _SHARES):
        bound = _readable(float(value))
        if bound > (found[-1] if found else 0.0):
            found.append(bound)
    return found


def _readable(value: float) -> float:
    """The nearest number that reads well; 0 for none above it."""
    if not value > 0:
        return 0.0
    unit = 10.0 ** math.floor(math.log10(value))
    best = min(_ROUND, key=lambda digit: abs(digit - value / unit))
    return float(f"{best * unit:.3g}")


def shown_bounds(tables: Sequence[Mapping[str, Table]]) -> dict[str, list[float]]:
    """Bounds of every measure over all hours of all releases that one page or series shows."""
    names = [name for name in ("density", "count") if any(name in one for one in tables)]
    return {name: class_bounds(one[name] for one in tables if name in one) for name in names}


def sequential(size: int) -> list[str]:
    """So many colours for light ground, from few to many, as #rrggbb."""
    if size == 1:
        return [_hex(_between(0.5))]
    return [_hex(_between(k / (size - 1))) for k in range(size)]


def faded(colour: str, ground: str) -> str:
    """The colour of an uncertain count on that ground."""
    pairs = zip(_channels(colour), _channels(ground), strict=True)
    mixed = (round((1 - FADE) * a + FADE * b) for a, b in pairs)
    return "#" + "".join(f"{part:02x}" for part in mixed)


def _channels(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[k : k + 2], 16) for k in (1, 3, 5))


def _between(t: float) -> Table:
    at = t * (len(_STOPS) - 1)
    k = min(int(at), len(_STOPS) - 2)
    low, high = (_lab(*_STOPS[k + step]) for step in (0, 1))
    mixed: Table = low + (at - k) * (high - low)
    return mixed


def _lab(lightness: float, chroma: float, hue: float) -> Table:
    turn = math.radians(hue)
    return np.array([lightness, chroma * math.cos(turn), chroma * math.sin(turn)])


_TO_LMS = np.array(
    [
        [1.0, 0.3963377774, 0.2158037573],
        [1.0, -0.1055613458, -0.0638541728],
        [1.0, -0.0894841775, -1.291485548],
    ]
)
_TO_RGB = np.array(
    [
        [4.0767416621, -3.3077115913, 0.2309699292],
        [-1.2684380046, 2.6097574011, -0.3413193965],
        [-0.0041960863, -0.7034186147, 1.707614701],
    ]
)


def _hex(lab: Table) -> str:
    linear = np.clip(_TO_RGB @ (_TO_LMS @ lab) ** 3, 0.0, 1.0)
    gamma = np.where(linear <= 0.0031308, 12.92 * linear, 1.055 * linear ** (1 / 2.4) - 0.055)
    return "#" + "".join(f"{math.floor(255 * part + 0.5):02x}" for part in gamma.tolist())


def encode_bits(mask: NDArray[np.bool_]) -> str:
    """A table of yes and no, eight to a byte, the first the highest bit; deflated."""
    return deflated(np.packbits(mask.ravel()).tobytes())


def scale_bar(metres_per_unit: float, most: float) -> tuple[float, float]:
    """A round length in metres that is at most `most` units long, and its units."""
    limit = metres_per_unit * most
    unit = 10.0 ** math.floor(math.log10(limit))
    metres = next(m * unit for m in (5, 2, 1) if m * unit <= limit)
    return metres, metres / metres_per_unit


def bar_text(metres: float) -> str:
    """Its length in words."""
    return f"{metres / 1000:g} km" if metres >= 1000 else f"{metres:g} m"
