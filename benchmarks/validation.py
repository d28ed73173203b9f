"""Every small ONNX source of the tests through the whole of `prepare`: how it ends, and in how many seconds.

    python benchmarks/validation.py > table.md

The store is a server in this process; each source has a bucket of its own. The last table that was kept is in
docs/reference/refused-models.md.
"""

import logging
import platform
import tempfile
import time
from pathlib import Path

import onnx
import onnxruntime
from support.builder_runs import Workbench
from support.case_runs import prepare, request_of
from support.onnx_cases import CASES, Case
from support.s3_servers import S3Server, moto_server

FAMILIES = {
    "ok": "Models that are taken",
    "file": "Files that are no model",
    "ext": "Weights in other files",
    "op": "Operators",
    "opset": "Versions",
    "type": "Datatypes and scales",
    "mix": "Precisions that meet",
    "prof": "Profiles",
    "shape": "Shapes",
    "graph": "Wiring",
    "mem": "Size",
    "quant": "Quantized and half-precision graphs",
    "onnxruntime": "What ONNX Runtime takes and TensorRT does not",
    "tensorrt": "What TensorRT takes and TensorRT-RTX does not",
}
"""Headings by the first word of a case's name."""


def row(server: S3Server, case: Case) -> tuple[str, float]:
    """The case as a line of Markdown, and its seconds."""
    with tempfile.TemporaryDirectory() as folder:
        bench = Workbench(Path(folder), server.bucket())
        request = request_of(bench, case)
        started = time.monotonic()
        verdict = prepare(bench, request)
        seconds = time.monotonic() - started
        outcome = bench.outcome(request.key)
    assert outcome is not None
    reason = verdict.message.reason if verdict.exit_code else "prepared, with a note" if outcome.notes else "prepared"
    text = verdict.message.message if verdict.exit_code else "; ".join(outcome.notes)
    cells = (case.name, reason, str(verdict.exit_code), f"{seconds:.1f}", text.replace("|", "\\|"))
    return f"| {' | '.join(cells)} |", seconds


def main() -> None:
    """Run all, family by family."""
    logging.disable()
    versions = f"onnx {onnx.__version__}, ONNX Runtime {onnxruntime.__version__}"
    print(f"{platform.machine()}, Python {platform.python_version()}, {versions}")
    taken = []
    with moto_server() as server:
        for family, heading in FAMILIES.items():
            print(
                f"\n### {heading}\n\n| case | reason | exit code | seconds | message or note |\n|---|---|---|---|---|"
            )
            for case in CASES.values():
                if case.name.partition("_")[0] == family:
                    line, seconds = row(server, case)
                    print(line, flush=True)
                    taken.append(seconds)
    taken.sort()
    print(f"\n{len(taken)} cases, median {taken[len(taken) // 2]:.1f} s, longest {taken[-1]:.1f} s")


if __name__ == "__main__":
    main()
