"""The Paris release of Acs & Castelluccia (2014), corrected: every step a part of its own.

`settings` what may be chosen; `budget` what each measurement gets; `space` where it works
(towers, zones or their smallest cover); `totals` how many visits each place has; `series` the
noisy hours of clusters; `cut` the private choice of how many coefficients to keep; `scheme`
puts them together. What is not a measurement lives in `density.refine`.
"""

from sfumato.density.paris.scheme import Paris

__all__ = ["Paris"]
