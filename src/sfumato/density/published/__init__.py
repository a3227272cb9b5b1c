"""The schemes as their papers print them, for reproduction only.

LEFT OF THE WALL, and they stay there: these functions take opened counts and draw
floating-point noise from a seeded generator. `evaluate` and `reproduce` run them to set the
printed figures beside ours; `release` cannot. What each does not guarantee is in `caveats`.
"""
