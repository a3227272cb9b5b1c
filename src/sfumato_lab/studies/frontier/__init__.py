"""Every density scheme against baselines and a linear oracle, on made-up and real aggregates."""
