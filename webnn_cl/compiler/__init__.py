"""Compiler: passes over a small graph of nodes and values, then lowering to a plan of kernel launches."""
