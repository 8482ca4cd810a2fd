"""Tuning: which variant of a kernel is fastest for a workload on the user's device, measured and remembered."""
