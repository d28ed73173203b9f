"""`make bench`: measures the operator on a local cluster of its own and prints tables in Markdown.

    python benchmarks/run.py [--counts 1,100,1000] [--name bench]

The figures of the last run that was kept are in docs/benchmarks/operator.md.
"""

import argparse
import platform
import subprocess
import sys
import tempfile
from dataclasses import astuple, fields
from pathlib import Path

import yaml
from enginery_cluster import platform_team
from enginery_cluster.state import Cluster

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples/01-file-classification"))

import apply_to_ready
import classify
import scale


def _phases(cluster: Cluster, rounds: int) -> None:
    """The example model; no round finds anything of another in the store: each has a source and samples of its own."""
    access = platform_team.add_tenant(cluster, "team-a")
    example = Path(__file__).parents[1] / "examples/01-file-classification/inferencemodel.yaml"
    results = []
    for number in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "files.npz"
            classify.evaluation_file(data, classify.samples(200, skip=20))
            platform_team.upload(cluster, access, f"magika/evaluation-{number}/files.npz", data)
        platform_team.upload(cluster, access, f"magika-{number}/model.onnx", classify.MODEL)
        model = yaml.safe_load(example.read_text())
        model["metadata"]["name"] = f"magika-{number}"
        model["spec"]["precision"]["accuracyGate"]["uri"] = f"s3://models/team-a/magika/evaluation-{number}/"
        model["spec"]["source"]["uri"] = f"s3://models/team-a/magika-{number}/model.onnx"
        results.append(apply_to_ready.measure(cluster, model))
        platform_team.kubectl(cluster, "delete", "imodel", f"magika-{number}", "-n", "team-a")
    print(f"\n## kubectl apply to Ready, seconds ({rounds} rounds, real kubelet)\n")
    print("| phase first seen | " + " | ".join(f"round {number + 1}" for number in range(rounds)) + " |")
    print("|---|" + "---|" * rounds)
    for phase in apply_to_ready.PHASES:
        print(f"| {phase} | " + " | ".join(f"{result.get(phase, float('nan')):.1f}" for result in results) + " |")


def _scale(cluster: Cluster, counts: list[int]) -> None:
    rows = scale.measure(cluster, counts)
    print("\n## Growth (real API server; pods on simulated nodes, KWOK; a stand-in answers builder Jobs)\n")
    names = [field.name.replace("_", " ") for field in fields(scale.Row)]
    print("| " + " | ".join(names) + " |\n|" + "---|" * len(names))
    for row in rows:
        print(
            "| "
            + " | ".join(f"{value:.1f}" if isinstance(value, float) else str(value) for value in astuple(row))
            + " |"
        )


def main() -> None:
    """Start the cluster, install, measure, end the cluster."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--counts", default="1,100,1000", help="numbers of models, growing")
    parser.add_argument("--rounds", type=int, default=3, help="rounds of apply to Ready")
    parser.add_argument("--name", default="bench", help="which cluster of this checkout")
    parser.add_argument("--keep", action="store_true", help="leave the cluster running")
    options = parser.parse_args()
    for command in ("up", "images"):
        subprocess.run([sys.executable, "-m", "enginery_cluster", command, "--name", options.name], check=True)
    cluster = Cluster.load(options.name)
    platform_team.install(cluster)
    print(f"{platform.machine()}, Python {platform.python_version()}, {platform.platform()}")
    _phases(cluster, options.rounds)
    _scale(cluster, [int(count) for count in options.counts.split(",")])
    if not options.keep:
        subprocess.run([sys.executable, "-m", "enginery_cluster", "down", "--name", options.name], check=True)


if __name__ == "__main__":
    main()
