"""Fixtures that several folders share."""

from support.api_server import api, own_namespace

__all__ = ["api", "own_namespace"]
