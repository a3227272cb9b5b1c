"""Acs, Biczók & Castelluccia (2018), made again: table, figure, arguments, and the thesis."""
