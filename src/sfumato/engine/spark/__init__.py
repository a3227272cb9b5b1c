"""Spark: the same release from a cluster, where the data is.

Left of the wall, like the rest of the engine.

* `session`, `files`: from a frame, table or path to described events.
* `rows`: what Spark scans, and what its workers make of it by the row rules of every path.
* `survey`: one scan for fingerprint and size.
* `blocks`: what the workers run, the compiled passes of the local engine.
* `source`: the questions, and why their answers are the same bytes everywhere.

pyspark is imported when a session is opened, never before.
"""
