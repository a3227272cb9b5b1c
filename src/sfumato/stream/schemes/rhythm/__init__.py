"""`rhythm`, the default: few good snapshots at public times, and the rhythms they teach."""
