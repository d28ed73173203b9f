"""PP-OCR with its weights: convolutional networks for pictures of any height and width. For tests of compilers."""

from pathlib import Path

from support.client_env import environment

PACKAGE = "rapidocr-onnxruntime==1.4.4"
"""Carries the ONNX files; nothing of its code is used."""


def ocr_model(part: str) -> Path:
    """The ONNX file of `det` (detection) or `rec` (recognition)."""
    (path,) = environment(PACKAGE, "--no-deps").parents[1].rglob(f"ch_PP-OCRv4_{part}_infer.onnx")
    return path
