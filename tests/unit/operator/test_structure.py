"""What holds of the repository itself: light imports, layers, generated files, records."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from enginery_operator import crd

ROOT = Path(__file__).parents[3]
HEAVY = ("kopf", "kubernetes", "boto3", "botocore", "aiohttp", "onnxruntime", "tensorrt", "enginery_builder")
PURE = (
    "enginery_operator.render.deployment",
    "enginery_operator.render.job",
    "enginery_operator.render.service",
    "enginery_operator.decide",
    "enginery_operator.status",
    "enginery_operator.crd",
    "enginery_operator.tenancy",
    "enginery_operator.workloads",
)


@pytest.mark.parametrize("module", PURE)
def test_pure_modules_load_nothing_heavy(module: str) -> None:
    script = f"import {module}, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_the_operator_folder_is_no_package() -> None:
    assert (ROOT / "operator").is_dir()
    assert not (ROOT / "operator/__init__.py").exists()


def test_the_standard_module_operator_is_the_standard_one() -> None:
    script = "import operator, collections; print(operator.__file__)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert str(ROOT) not in done.stdout


def test_layers_hold() -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert done.returncode == 0, done.stdout


def test_generated_files_are_current() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "enginery_operator.crd", "--check"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


def test_a_stale_file_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(crd, "_ROOT", tmp_path)
    assert crd.main(["--check"]) == 1
    assert "crds/tenants.yaml" in capsys.readouterr().err
    assert crd.main([]) == 0
    assert crd.main(["--check"]) == 0


def test_decision_records_have_numbers_of_their_own() -> None:
    names = sorted(path.name for path in (ROOT / "docs/adr").glob("[0-9]*.md"))
    assert names
    numbers = [name[:4] for name in names]
    assert len(set(numbers)) == len(numbers), names
    assert all(re.fullmatch(r"\d{4}-[a-z0-9-]+\.md", name) for name in names)


def test_records_that_code_refers_to_exist() -> None:
    there = {path.name[:4] for path in (ROOT / "docs/adr").glob("*.md")}
    texts = (path.read_text() for path in (ROOT / "operator").rglob("*.py"))
    assert {number for text in texts for number in re.findall(r"docs/adr/(\d{4})", text)} <= there


def test_ci_runs_what_a_developer_runs() -> None:
    ci = (ROOT / ".ci/run").read_text()
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    called = set(re.findall(r"^\s*(?:exec )?make ([a-z-]+)", ci, re.MULTILINE))
    assert called
    assert called <= targets
    readme = (ROOT / "README.md").read_text()
    named = set(re.findall(r"^\s*make ([a-z-]+)", readme, re.MULTILINE)) | set(re.findall(r"`make ([a-z-]+)", readme))
    assert named <= targets
    assert called | {"demo"} <= named
