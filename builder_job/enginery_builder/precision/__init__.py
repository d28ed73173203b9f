"""Puts a precision into the graph. Called by `prepare`."""
