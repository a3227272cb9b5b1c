"""What an adversary would do with a release. Every result here is internal to the holder."""
