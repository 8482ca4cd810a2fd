"""Benchmarks: with pytest-benchmark (`pytest tests/benchmarks --device TEXT`), and commands that print tables."""
