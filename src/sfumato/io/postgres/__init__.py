"""Events that live in PostgreSQL: one consistent snapshot, taken read-only, gone after the run.

* `address`: what the user writes, cut into where the server is (secret) and which tables (public).
* `failures`: what a driver complains about, without anything of the connection or of a record.
* `columns`: the server's types as the reader knows them, and how each is asked for.
* `encodings`: texts of a database that is not UTF-8, value by value.
* `period`: the release's period as a condition that the server evaluates.
* `session`: a read-only transaction, and Arrow batches out of it.
* `snapshot`: batches into a scratch file, from which every engine reads.
* `events`: `read_database`, which is `read_events` for an address.
"""
