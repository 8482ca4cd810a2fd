"""The fast float32 kernels for CPUs: register tiles without local memory or barriers (kernels_cl/tile.h).

Each ``try_lower_*`` lowers a node and says so, or says no and leaves it to the plain kernels. Work is cut by the
sizes in `plan`, float16 operands are widened (constants once, at build), sums are float32.
"""
