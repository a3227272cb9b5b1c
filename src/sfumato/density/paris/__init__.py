"""The Paris release of Acs & Castelluccia (2014), corrected: every step a part of its own.

`settings` what may be chosen; `budget` what each measurement gets; `totals` where it works (towers,
zones or their smallest cover), how many visits each place has, and how sure a released count is;
`spectrum` the private choice of how many coefficients to keep, and Laplace noise on the kept ones;
`scheme` puts them together. What is not a measurement lives in `density.refine`.
"""

from sfumato.density.paris.scheme import Paris

__all__ = ["Paris"]
