"""Tests of the ONNX importer."""
