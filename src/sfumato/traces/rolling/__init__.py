"""The compiled part of the rolling budget."""
