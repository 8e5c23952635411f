"""Statistics over arrays: arrays in, arrays out; nothing of ours is imported here.

Every function is imported from its own module (`change_points`, `disjoint_sets`, `robust`, `sigma_rule` and others), so
that a caller who needs a median does not load the compiler of the kernels.
"""
