"""Events that live in PostgreSQL: one consistent snapshot, taken read-only, gone after the run.

* `connect`: what the user writes, cut into where the server is (secret) and which tables (public);
  what a driver complains about, without anything of the connection or of a record.
* `table`: the server's types as the reader knows them, and how each is asked for; texts of a
  database that is not UTF-8, value by value; a read-only transaction, and Arrow batches out of it.
* `events`: `read_database`, which is `read_events` for an address; the release's period as a
  condition that the server evaluates; batches into a scratch file, from which every engine reads.
"""
