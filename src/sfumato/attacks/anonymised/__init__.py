"""What an adversary makes of releases by the other door. Every result is internal to the holder."""
