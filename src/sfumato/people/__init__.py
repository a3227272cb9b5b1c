"""From subscribers to people: weights by area, and several operators of one city."""
