"""Readers and writers: events, towers and zones in the formats their holders keep."""
