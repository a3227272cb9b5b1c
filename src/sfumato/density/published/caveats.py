"""What the printed calibrations do not guarantee, in plain words for manifests and tables.

The arguments and counterexamples stand in docs/guarantees.md.
"""

from __future__ import annotations

FLOAT_NOISE = "Noise is drawn in floating point, whose low bits can give a count away."
CLUSTERS_SHARE_USERS = (
    "Clusters hold different cells but the same users, so losses add over clusters; with "
    "Laplace noise the claimed epsilon is passed by up to a factor of about five."
)
CHOICE_COUNTED_ONCE = (
    "The choice of k is made in every cluster and charged once; the claimed number survives "
    "only because the Gaussian part is noisier than it needs to be."
)
PROBABILISTIC_DP = (
    "The claim is probabilistic differential privacy, which post-processing does not preserve."
)
COVER_SUBTRACTS_COUNTS = (
    "The cover correction subtracts other people's counts; one visit then moves the vector by "
    "more than one."
)
TRUE_N = "The histogram is divided by the true number of users, which no finite epsilon allows."
K_UNCAPPED = (
    "The total is scaled to the largest contribution in the sample, which was never enforced."
)
TOTALS_ROOT_L = (
    "The totals' sensitivity is taken as the square root of l; it is l. A claimed epsilon of "
    "0.15 is in truth 0.63."
)
TOTAL_ROOT_CAP = (
    "The grand total's sensitivity is taken as a square root; it is the cap itself. A claimed "
    "epsilon of 0.075 is in truth 1.7."
)
