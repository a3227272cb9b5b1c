"""One exponential selection per cluster, the budget counted once (Acs & Castelluccia 2014).

How many Fourier coefficients to keep is chosen in every cluster with weights
exp(-e u / (2 sqrt(l))). Clusters share no cells, but they share users: one with a visit in
each of 30 clusters moves 30 choices. Each cluster here chooses between keeping the mean alone
(its score is the rest that is lost, made by 400 visits in one hour) and keeping all (its score
is noise, public, worth 700 visits). The user adds one visit in that hour, and what the first
option loses grows by almost 1. Claimed e = 0.075; when all 30 clusters keep everything,
the output is exp(0.18) times likelier with the user (up to 0.29 on other series).

This loss sits in outputs that are much too rare to be seen in runs (all 30 clusters choosing
alike), so the prey is caught by the exact route.

Corrected: weights exp(-e u / (sqrt(2) l)), which pays for all 30 choices.
"""

import math

import numpy as np
from scipy.fft import dct
from scipy.stats import binom

CLUSTERS = VISITS = 30
HOURS, CROWD, NOISE = 168, 400, 700
CLAIMED = 0.075
OUTPUTS = np.arange(CLUSTERS + 1)
"""How many clusters keep everything. All clusters are alike, so this number says it all."""


def keeps_all(visits, rate):
    series = np.zeros(HOURS)
    series[17] = visits
    residual = np.linalg.norm(dct(series, norm="ortho")[1:])
    return 1 / (1 + math.exp(-rate * (residual - NOISE)))


def laws(rate):
    return tuple(
        binom.pmf(OUTPUTS, CLUSTERS, keeps_all(visits, rate)) for visits in (CROWD, CROWD + 1)
    )


EXACT_BROKEN = (*laws(CLAIMED / (2 * math.sqrt(VISITS))), CLAIMED)
EXACT_CORRECTED = (*laws(CLAIMED / (math.sqrt(2) * VISITS)), CLAIMED)
