"""The papers' experiments again, with their numbers beside ours. INTERNAL.

Everything here compares with true counts and runs printed forms whose promise does not hold,
so its results are marked internal, even where the people are made up.
"""
