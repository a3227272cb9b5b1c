"""Questions to the data itself: counts of places and times, each charged to the ledger."""
