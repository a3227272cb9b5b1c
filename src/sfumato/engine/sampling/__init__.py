"""One visit a slot, at most l slots a user: seeds, orders and the compiled pass."""
