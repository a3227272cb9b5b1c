"""Acs & Castelluccia (2014) and the chapter of Acs, Biczók & Castelluccia (2018) on a city."""
