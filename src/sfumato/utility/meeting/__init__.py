"""Compiled parts of contacts and gossip."""
