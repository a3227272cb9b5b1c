"""`bayes`, the default scheme: cheap margins first, then one matrix, then an empirical-Bayes prior.

`scheme` divides the budget by public facts, plans and measures; `clipping` says what weighting
heavy users down does to a count; `inference` turns noisy numbers into a density and its intervals.
"""

from sfumato.density.bayes.scheme import Bayes

__all__ = ["Bayes"]
