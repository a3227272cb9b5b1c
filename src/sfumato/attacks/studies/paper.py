"""What Chen et al. report (section 7.2, Figures 5 and 6), in percent."""

from __future__ import annotations

CROWD = {10: 78.86, 19: 61.02}
"""Accuracy by number of points, 1,000 of their simulated people."""
CROWD_MEAN = 69.51
TAXIS = {5: 59.4, 10: 40.56}
"""Accuracy by number of points, 1,000 taxis of T-Drive."""
PROTECTED = (10.0, 20.0)
"""Range after any of their schemes, 19 points of the crowd, epsilon 0.1 to 1."""
