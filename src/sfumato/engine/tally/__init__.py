"""One compiled pass over users for each question, on rows grouped by user."""
