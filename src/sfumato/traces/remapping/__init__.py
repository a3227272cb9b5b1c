"""The compiled part of remapping."""
