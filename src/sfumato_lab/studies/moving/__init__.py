"""The studies of streams (Chen et al.): schemes and baselines on moving crowds."""
