"""Writes the messages anew from the proto files: `python -m enginery_runtime.oip.generate [folder]`.

A developer calls it after a change of a proto file; a test calls it and compares. It needs grpcio-tools, which the
served image does not have.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent


def generate(folder: Path) -> None:
    """Write `*_pb2.py` and their types into `folder`. Raises RuntimeError when a proto file is not valid."""
    from grpc_tools import protoc

    names = sorted(path.name for path in HERE.glob("*.proto"))
    arguments = ["protoc", f"-I{HERE}", f"--python_out={folder}", f"--pyi_out={folder}", *names]
    if protoc.main(arguments) != 0:
        raise RuntimeError("protoc refused the proto files; its words are above")


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else HERE)
