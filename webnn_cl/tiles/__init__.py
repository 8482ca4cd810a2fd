"""Fast matrix products and convolutions: register tiles without local memory or barriers for CPUs (tile.h), and
work-group tiles in local memory for GPUs (local_tiles.h).

`variants` knows which kernels can compute a node and picks one. Work is cut by the sizes in `plan`, float16
operands are widened (constants once, at build), sums are float32.
"""
