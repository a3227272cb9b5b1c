"""`rhythm`, the default: few good snapshots at public times, and the rhythms they teach.

`scheme` measures and publishes; `gaussian_process` estimates every hour from the snapshots;
`levels` has the spatial prior and the empirical-Bayes law of cell levels; `shrinkage` makes one
level for each cell of it.
"""
