"""Golden files: what a test wants is a file a person has read. ENGINERY_REWRITE=1 writes them; read the difference."""

import os
from pathlib import Path

OUTPUT = Path(__file__).parents[1] / "data" / "output"


def assert_golden(name: str, text: str) -> None:
    """`text` is what tests/data/output/<name> holds."""
    path = OUTPUT / name
    if os.environ.get("ENGINERY_REWRITE"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert path.is_file(), f"no {path}; write it with ENGINERY_REWRITE=1 and read it"
    assert text == path.read_text(), f"differs from {path}; ENGINERY_REWRITE=1 writes it anew"
