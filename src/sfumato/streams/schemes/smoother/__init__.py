"""`smoother`: means of parts of finished windows, read from before and after each slot."""
