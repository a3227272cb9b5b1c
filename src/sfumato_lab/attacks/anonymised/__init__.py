"""What an adversary makes of anonymised releases. Every result is internal to the holder."""
