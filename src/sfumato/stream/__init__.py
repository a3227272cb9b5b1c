"""Publishing slot by slot: a publisher is given the private counts of one slot and answers.

* `facts`, `calendar`, `contract`: what is public about a stream, and what a scheme is.
* `meter`: what every window of the stream has spent; it refuses before noise is drawn.
* `schemes`: baselines, direct and threshold perturbation and their hybrids (Chen et al.),
  their peers, and `rhythm`, the default. `published`: Chen et al. as printed, for
  reproduction only.
* `live`, `store`, `vault`, `intake`, `outputs`: a stream that survives being killed.
"""
