"""The schemes that a stream can be published with, one or a few near relatives in a file."""
