"""`bayes`, the default scheme: cheap margins first, then one matrix, then an empirical-Bayes prior.

`scheme` divides the budget by public facts, plans and measures; `clipping` says what weighting
heavy users down does to a count; `crowds` and `crowd_counts` find one-off crowds and how many
people they are; `inference` turns noisy numbers into a density and its intervals.
"""

from sfumato.density.bayes.scheme import Bayes

__all__ = ["Bayes"]
