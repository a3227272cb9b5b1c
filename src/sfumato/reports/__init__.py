"""The offline page: a release that people can look at, in one file, without a network.

`page` makes the public page from a release folder and nothing else; `internal` makes the page
of an evaluation, which shows the truth and is for the holder alone; `figures` draws the same
things for papers. Scripts, styles and words are files of their own beside this one.
"""
