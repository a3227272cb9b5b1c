"""What an adversary does with sanitised traces. Results are internal: they know the truth."""
