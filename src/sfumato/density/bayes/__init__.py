"""`bayes`, the default scheme: cheap margins first, then one matrix, then an honest prior.

`settings` divides the budget by public facts, `scheme` plans and measures, `inference` turns
noisy numbers into a density and its intervals.
"""

from sfumato.density.bayes.scheme import Bayes

__all__ = ["Bayes"]
