"""The empirical audit: attack what is released and bound from below what it really costs.

Left of the wall in spirit: it works on made-up neighbouring data, never on real records.
"""
