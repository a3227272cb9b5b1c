"""Studies of streams: Chen et al., section 7.3, and the table of every scheme. Internal.

They read the truth, so nothing they make may be published; file names say `internal`.
"""
