"""All density schemes and outside baselines on four kinds of city: how far is the possible?"""
