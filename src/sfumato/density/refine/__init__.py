"""RIGHT OF THE WALL: post-processing that schemes share. Reads noisy numbers only."""
