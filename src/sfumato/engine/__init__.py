"""Events to bounded counts: one relational definition, and a compiled pass with the same bytes.

Left of the wall: everything computed here is private and leaves inside `Private`.

* `tests/engine/reference.py` holds the definition: what a bounded count *is*, as one SQL text over
  who, when and where. It runs on DuckDB and is the oracle of the tests.
* `base`: weights, sensitivities, and the base class of every count source.
* `intake`, `partition`, `text_ids`, `grouping`, `sampling`, `tally`, `local`: the default on one
  machine, rows of a user together and one compiled pass over users for each question.
* `spark`: the same questions on a cluster, with the same compiled passes in its workers.
* `fingerprint`: which input a reservation was made for; `open`: events of any kind as a source.
"""
