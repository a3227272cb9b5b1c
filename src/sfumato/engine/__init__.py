"""LEFT OF THE WALL: the one relational pipeline (bound, count) and where it runs."""
