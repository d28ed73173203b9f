"""Archives of torch.export and others: two that convert, with torch's own answers, and some that must not be loaded.

Runs in torch's environment. The hostile ones write a file named `owned` beside themselves if anything loads them; the
program loads one itself, to prove that it works.
"""

import os
import pickle
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

OUT = Path(sys.argv[1])
NAMES: dict[str, list[str]] = {}
"""Outputs of each exported program."""
torch.manual_seed(7)


class Images(torch.nn.Module):
    """A convolutional network with a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(3, 16, 3, stride=2), torch.nn.BatchNorm2d(16), torch.nn.ReLU(), torch.nn.Conv2d(16, 64, 3)
        )
        self.head = torch.nn.Linear(64, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        return self.head(torch.nn.functional.gelu(self.features(image)).mean((2, 3)))


class Sequences(torch.nn.Module):
    """Integers and floats in, two outputs out, a constant within, sizes computed with."""

    def __init__(self) -> None:
        super().__init__()
        self.table = torch.nn.Embedding(100, 32)
        layer = torch.nn.TransformerEncoderLayer(32, 4, 64, batch_first=True)
        self.layers = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.register_buffer("bias", torch.randn(32))

    def forward(self, tokens: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.layers(self.table(tokens)) * scale + self.bias
        return hidden, hidden.reshape(hidden.shape[0], -1, 2).sum(1) / tokens.shape[1]


def case(name: str) -> Path:
    """The source folder of a case."""
    folder = OUT / name / "source"
    folder.mkdir(parents=True)
    return folder


def exported(
    name: str, module: torch.nn.Module, inputs: dict[str, torch.Tensor], free: dict[str, dict[int, str]]
) -> Path:
    """A program with free sizes, as a tenant saves it."""
    named = {size: torch.export.Dim(size, min=1, max=512) for sizes in free.values() for size in sizes.values()}
    shapes = {key: {axis: named[size] for axis, size in free.get(key, {}).items()} for key in inputs}
    with torch.no_grad():
        program = torch.export.export(module.eval(), (), inputs, dynamic_shapes=shapes)
    path = case(name) / "net.pt2"
    torch.export.save(program, path)
    NAMES[name] = list(program.graph_signature.user_outputs)
    return path


def answers(name: str, module: torch.nn.Module, **inputs: torch.Tensor) -> None:
    """What torch answers, at other sizes than the export saw."""
    with torch.no_grad():
        given = module(**inputs)
    tensors = given if isinstance(given, tuple) else (given,)
    arrays = {f"input.{key}": value.numpy() for key, value in inputs.items()}
    arrays |= {f"output.{key}": value.numpy() for key, value in zip(NAMES[name], tensors, strict=True)}
    np.savez(OUT / name / "case.npz", **arrays)


def rewritten(name: str, source: Path, change: Callable[[str, bytes], bytes]) -> Path:
    """An archive with some members changed, written as torch writes them."""
    path = case(name) / "net.pt2"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for member in old.namelist():
            new.writestr(member, change(member.partition("/")[2], old.read(member)))
    return path


class Trap:
    """A pickle that runs a command."""

    def __init__(self, target: Path) -> None:
        self.target = target

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.target}",)


def hostile(good: Path) -> None:
    """Pickles where torch.export.load unpickles, and code where it evaluates."""
    examples = OUT / "trap_in_examples" / "owned"
    member = "data/sample_inputs/model.pt"
    path = rewritten(
        "trap_in_examples", good, lambda name, data: pickle.dumps(Trap(examples)) if name == member else data
    )
    try:
        torch.export.load(path)
    except Exception as error:  # noqa: BLE001 - the file it leaves is what counts
        print(f"torch.export.load: {error}")
    assert examples.exists(), "the trap does not work, so the test would prove nothing"
    examples.unlink()

    code = f"__import__('os').system('touch {OUT / 'code_in_a_size' / 'owned'}')"

    def in_size(name: str, data: bytes) -> bytes:
        text = data.decode() if name == "models/model.json" else ""
        found = next((item for item in text.split('"') if item.startswith("Symbol(")), "")
        return text.replace(found, code).encode() if found else data

    rewritten("code_in_a_size", good, in_size)
    target = b"torch.ops.aten.relu.default"
    rewritten("foreign_operator", good, lambda _, data: data.replace(target, b"torch.os.system"))


@torch.library.custom_op("mylib::fused", mutates_args=())
def fused(x: torch.Tensor) -> torch.Tensor:
    """An operator of the trainer's own."""
    return x * 2


@fused.register_fake
def _(x: torch.Tensor) -> torch.Tensor:
    return torch.empty_like(x)


class Custom(torch.nn.Module):
    """A network with it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return fused(x) + 1


class Decomposed(torch.nn.Module):
    """A network with an operator that ONNX has no counterpart of."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.linalg.eigvalsh(x)


def main() -> None:
    images, sequences = Images(), Sequences()
    example = {"image": torch.randn(2, 3, 32, 32)}
    good = exported("images", images, example, {"image": {0: "batch"}})
    answers("images", images, image=torch.randn(5, 3, 32, 32))
    tokens, scale = torch.randint(0, 100, (2, 8)), torch.randn(2, 1, 1)
    free = {"tokens": {0: "batch", 1: "length"}, "scale": {0: "batch"}}
    exported("sequences", sequences, {"tokens": tokens, "scale": scale}, free)
    tokens, scale = torch.randint(0, 100, (3, 21)), torch.randn(3, 1, 1)
    answers("sequences", sequences, tokens=tokens, scale=scale)

    hostile(good)
    exported("no_counterpart", Decomposed(), {"x": torch.randn(4, 4)}, {})
    exported("custom", Custom(), {"x": torch.randn(2, 4)}, {})
    torch.save(images, case("pickle") / "net.pt2")
    traced = torch.jit.trace(images, torch.randn(1, 3, 32, 32))
    torch.jit.save(traced, case("torchscript") / "net.pt2")
    (case("cut") / "net.pt2").write_bytes(good.read_bytes()[:-200])


main()
