"""Statistics over arrays: arrays in, arrays out; nothing of ours is imported here.

The functions live in the modules of their names (`change_points`, `disjoint_sets`, `periods`, `robust`, `sigma_rule`)
and are imported from there, so that a caller who needs a median does not load the compiler of the kernels.
"""
