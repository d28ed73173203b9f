"""Compiles with TensorRT and TensorRT-RTX. Reached through `backend`."""
