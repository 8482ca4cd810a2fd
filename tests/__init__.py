"""Tests of webnn_cl."""
