"""What the papers print: Acs & Castelluccia (2014), and the chapter of 2018 where it differs.

Averages over all zones at epsilon 0.3 and l = 30 unless a key says otherwise. Figures that the
papers only draw are not here.
"""

from __future__ import annotations

PRINTED: dict[str, dict[str, float]] = {
    "EFPAG(30)": {"mre": 0.17, "pearson": 0.96, "emd": 188.0},
    "EFPA(30)": {"emd": 258.0},
    "LPA(30)": {"mre": 1.01, "pearson": 0.47, "emd": 341.0},
}
"""Method to figures."""

DIFFERENCES: tuple[tuple[str, str, str, float, float], ...] = (
    ("EFPAG instead of EFPA", "EFPA(30)", "EFPAG(30)", -0.03, 0.02),
    ("improvements, and l 168 to 30", "EFPAG⁻(168)", "EFPAG(30)", -0.07, 0.01),
)
"""What, from, to, change of MRE, change of Pearson; averages over epsilon."""

ONE_ZONE: dict[str, tuple[float, float]] = {
    "LPA(30)": (0.73, 0.59),
    "EFPAG⁻(30)": (0.38, 0.98),
    "EFPAG(30)": (0.16, 0.99),
}
"""Method to MRE and Pearson of the zone that Figures 3 to 5 show."""

COVER = {"towers": 1303, "zones": 989, "cells": 826, "zone_mean": 91.0, "cell_mean": 120.0}
"""Sizes and mean counts of Figures 1 and 2."""

DAYLIGHT_GAIN = 4.0
"""By how much the improvements divide the error in daylight, at best (Figure 9)."""
