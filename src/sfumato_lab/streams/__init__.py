"""Schemes of streams to compare with: what the papers describe, corrected where they need it."""
