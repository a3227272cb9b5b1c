"""`comb`: rotating combs of vectors, profiles by Gaussian processes, a law of levels."""
