"""Events to bounded counts: one relational definition, and a compiled pass with the same bytes.

Left of the wall: everything computed here is private and leaves inside `Private`.

* `relation`: a described source as one SQL select of who, when and where (both engines).
* `definition`, `dialect`, `order`, `weights`: what a bounded count *is*, as SQL text.
* `relational`: that definition run on DuckDB. The oracle of the tests, the form for clusters.
* `ids`, `intake`, `sampling`, `tally`, `local`: the default on one machine, rows of a user
  together and one compiled pass over users for each question.
* `spark`: the same questions on a cluster, with the same compiled passes in its workers.
"""
