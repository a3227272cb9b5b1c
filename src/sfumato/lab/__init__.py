"""Studies: the papers again, printed and corrected forms. The product never imports them."""
