"""A synthetic city and its people, for the demo, the tests and the benchmarks."""
