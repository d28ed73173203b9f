"""Damaged files end in a verdict: never in another exception, a hang, or a fault in native code."""

import subprocess
import sys

import pytest
from support import mutants

NAMES = ["ok_dynamic", "ok_int8_per_channel", "ok_gru", "graph_if_rank_mismatch", "op_topk_largest", "quant_fp16_pure"]


@pytest.mark.parametrize("name", NAMES)
def test_every_mutant_passes_or_is_refused(name: str) -> None:
    ended = subprocess.run(
        [sys.executable, mutants.__file__, "20", name, *NAMES],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )

    assert ended.returncode == 0, ended.stderr[-2000:]
    passed, refused = map(int, ended.stdout.split())
    assert refused > mutants.CUTS
    assert passed > 0
