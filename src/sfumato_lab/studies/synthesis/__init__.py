"""Synthetic data beside the truth: all methods, four grounds. Internal results."""
