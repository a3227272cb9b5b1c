"""THE WALL: the only way from private numbers to public ones, and it is always charged."""
