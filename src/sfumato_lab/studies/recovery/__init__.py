"""The studies of trajectory recovery (Xu et al. 2017; Chen et al.)."""
