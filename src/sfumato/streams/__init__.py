"""Publishing slot by slot: a publisher is given the private counts of one slot and answers.

* `facts`, `scheme`: what is public about a stream, what a scheme is, and the meter, which knows
  what every window of the stream has spent and refuses before noise is drawn.
* `schemes`, `registry`: baselines, direct and threshold perturbation and their hybrids (Chen et
  al.), their peers, and `comb`, the default. The forms that papers print are in
  `lab.as_printed`, for reproduction only.
* `publish`, `live`, `state`, `vault`, `input`, `slots`, `output`: a stream that survives being
  killed.
* `replay`: a scheme on an array of counts, for tests, audits and studies.
"""
