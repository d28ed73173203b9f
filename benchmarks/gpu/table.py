"""Prints the tables of docs/benchmarks/gpu.md from the results of both halves.

python benchmarks/gpu/table.py RESULTS/torch.json RESULTS/engines.json
"""

import json
import sys
from pathlib import Path
from typing import Any

from matrix import MODELS, PRECISIONS, TORCH, Model

Cells = dict[str, dict[str, Any]]
"""The cells of one model, by contender."""

_MIB = 1 << 20
_ENGINES = tuple(f"Enginery {precision}" for precision in PRECISIONS)


def read(paths: list[Path]) -> dict[str, Cells]:
    """Cells by model and contender."""
    found: dict[str, Cells] = {name: {} for name in MODELS}
    for path in paths:
        for cell in json.loads(path.read_text()) if path.exists() else []:
            found[cell["model"]][cell["contender"]] = cell
    return found


def row(values: list[object]) -> str:
    return "| " + " | ".join(map(str, values)) + " |"


def speed(model: Model, cells: Cells) -> str:
    """Milliseconds a batch on the device; in brackets the throughput as a multiple of PyTorch eager FP32."""
    names = [name for name in (*TORCH, *_ENGINES) if name in cells]
    lines = [row(["batch", *names]), "|---" * (len(names) + 1) + "|"]
    for batch in map(str, model.batches):
        base = cells.get("eager FP32", {}).get("batches", {}).get(batch)
        entries = []
        for name in names:
            found = cells[name]["batches"].get(batch)
            entries.append(_entry(found, base) if found else "")
        lines.append(row([batch, *entries]))
    return "\n".join(lines)


def _entry(found: dict[str, float], base: dict[str, float] | None) -> str:
    times = f" ({base['gpu_ms'] / found['gpu_ms']:.1f}x)" if base else ""
    return f"{found['gpu_ms']:.3f}{times}"


def engines(model: Model, cells: Cells) -> str:
    """What the engines take, and what they do to the outputs."""
    names = ["items/s at the largest batch", "ms from arrays to arrays, smallest and largest batch", "prepare s"]
    names += ["build s", "engine MiB", "device memory MiB (of FP32)", "worst cosine with PyTorch FP32"]
    lines = [row(["engine", *names]), "|---" * (len(names) + 1) + "|"]
    full = cells.get("Enginery FP32", {}).get("device_memory_bytes")
    for name in (name for name in _ENGINES if name in cells):
        cell = cells[name]
        batches = cell["batches"]
        first, last = batches[str(model.batches[0])], batches[str(model.batches[-1])]
        memory = cell["device_memory_bytes"]
        share = f" ({100 * memory / full:.0f} %)" if full else ""
        values = [
            f"{1000 * model.batches[-1] / last['gpu_ms']:,.0f}",
            f"{first['host_ms']:.2f}, {last['host_ms']:.2f}",
            f"{cell['prepare_seconds']:.0f}",
            f"{cell['build_seconds']:.0f} ({cell['timing_cache'].lower()} timings)",
            f"{cell['engine_bytes'] / _MIB:.0f}",
            f"{memory / _MIB:.0f}{share}",
            f"{cell['cosine']:.5f}",
        ]
        lines.append(row([name, *values]))
    return "\n".join(lines)


def main() -> None:
    for name, cells in read([Path(argument) for argument in sys.argv[1:]]).items():
        print(f"## {name}\n\n{speed(MODELS[name], cells)}\n\n{engines(MODELS[name], cells)}\n")


if __name__ == "__main__":
    main()
