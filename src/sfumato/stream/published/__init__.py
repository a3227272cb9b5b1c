"""The schemes of Chen et al. as printed, for reproduction alone.

They read raw arrays, draw floating-point noise and claim more than they keep: nothing here
can be published, and no stream offers it. See each module for what is not guaranteed.
"""
