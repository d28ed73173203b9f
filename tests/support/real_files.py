"""The classifier magika, and calibration and evaluation data for it from real files, as example 02 makes them."""

from pathlib import Path
from typing import Any

from support.examples import QUANTIZED, program

_DATA: Any = program(QUANTIZED / "data.py")

MODEL: Path = _DATA.classify.MODEL
CALIBRATION: int = _DATA.CALIBRATION
EVALUATION: int = _DATA.EVALUATION


def real_files(count: int, *, skip: int = 0) -> tuple[Any, Any]:
    """(inputs [count, 2048] int32, labels [count] int64), always the same; `skip` leaves out the first so many."""
    found: tuple[Any, Any] = _DATA.real_files(count, skip=skip)
    return found
