"""Studies: the papers again, printed and corrected forms, oracles. Nothing in the product imports them."""
