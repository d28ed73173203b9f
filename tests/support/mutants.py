"""Damaged copies of a good model: cut off, bytes changed, spliced with others. Run as a program it checks them all.

    python mutants.py SEED NAME OTHER ...

Each must end in an EngineryError or pass. Another exception ends the program with a traceback, a fault in native code
with a signal: so the test starts it as a process of its own.
"""

import itertools
import random
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from enginery_store.errors import EngineryError
from support.checking import checked
from support.onnx_cases import CASES
from support.onnx_cases.case import MODEL_NAME

CUTS, FLIPS, SPLICES = 50, 200, 25


def mutants(data: bytes, others: list[bytes], source: random.Random) -> Iterator[bytes]:
    """Damaged copies, the same for the same seed."""
    for number in range(CUTS):
        yield data[: len(data) * number // CUTS]
    for _ in range(FLIPS):
        yield _changed(data, source.randrange(len(data)), source.randrange(256))
    for _ in range(FLIPS):  # at the ends, where the graph is: most bytes in between are weights, which any value fits
        place = source.randrange(-1000, 1000) % len(data)
        yield _changed(data, place, source.randrange(256))
    for _ in range(SPLICES):
        other = source.choice(others)
        yield data[: source.randrange(len(data))] + other[source.randrange(len(other)) :]


def _changed(data: bytes, place: int, byte: int) -> bytes:
    return data[:place] + bytes([byte]) + data[place + 1 :]


def main(seed: int, name: str, others: list[str]) -> None:
    """Check every mutant of one case, for no backend and for its own; prints how many passed, and were refused."""
    source = random.Random(seed)  # noqa: S311 - it decides nothing secret
    case, passed, refused = CASES[name], 0, 0
    spliced = [CASES[other].files()[MODEL_NAME] for other in others]
    damaged = mutants(case.files()[MODEL_NAME], spliced, source)
    for mutant, backends in itertools.product(damaged, ([], [case.backend])):
        with tempfile.TemporaryDirectory() as folder:
            try:
                checked(Path(folder), mutant, case.profiles, backends, precision=case.precision)
                passed += 1
            except EngineryError:
                refused += 1
    print(passed, refused)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3:])
