"""Kubernetes quantities as numbers: 500m, 2, 4Gi. Called where two of them are compared or one is counted with."""

from decimal import Decimal

_SUFFIXES = {"m": "0.001", "k": "1e3", "M": "1e6", "G": "1e9", "T": "1e12", "Ki": "1024", "Mi": "1048576",
             "Gi": "1073741824", "Ti": "1099511627776"}  # fmt: skip


def quantity(text: str) -> Decimal:
    """The number a quantity means: the API server rewrites 1000m as 1. Raises ValueError for other text."""
    digits = text.rstrip("kKMGTim")
    try:
        return Decimal(digits) * Decimal(_SUFFIXES[text[len(digits) :]] if len(digits) < len(text) else "1")
    except (ArithmeticError, KeyError):
        raise ValueError(f"{text!r} is not a quantity") from None
