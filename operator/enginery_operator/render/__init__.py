"""Desired objects, one pure module per kind: plain dicts out, no client in. Called by `reconcile`."""
