"""The studies of geo-indistinguishable traces: hot spots, spreading, linking."""
