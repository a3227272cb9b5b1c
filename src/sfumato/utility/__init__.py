"""What a user of the release would do with it: metrics, hot spots, spreading. INTERNAL."""
