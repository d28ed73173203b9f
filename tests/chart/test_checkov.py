"""checkov, an independent reader of manifests, finds nothing in what the chart and the operator make."""

import json
import subprocess
from pathlib import Path

import pytest
import yaml
from support.api_server import ApiServer, helm
from support.client_env import client_python
from support.golden import OUTPUT

pytestmark = pytest.mark.cluster

CHART = Path(__file__).parents[2] / "helm/enginery"

EXCUSED = {
    "CKV_K8S_11": "no CPU limit: throttled event loops and inference miss their time; requests share the CPU fairly",
    "CKV_K8S_15": "the pull policy is a value; IfNotPresent with a version's tag",
    "CKV_K8S_43": "images are named by tag in the defaults; a digest is the installation's choice",
    "CKV_K8S_38": "the operator talks to the API server; pods of tenants carry no token, which another test asserts",
    "CKV2_K8S_6": "NetworkPolicies are the tenants' and the platform's, not the chart's",
}
"""Checks that are left out, each with its reason."""


def test_checkov_finds_nothing(api: ApiServer, tmp_path: Path) -> None:
    done = helm(api, "template", "enginery", str(CHART), "--namespace", "enginery-system")
    assert done.returncode == 0, done.stderr
    (tmp_path / "chart.yaml").write_text(done.stdout)
    for file in (OUTPUT / "render").rglob("*.yaml"):
        item = yaml.safe_load(file.read_text())
        for container in item["spec"].get("template", {}).get("spec", {}).get("containers", []):
            container["env"] = [{"name": entry["name"], "value": "x"} for entry in container["env"]]
        (tmp_path / f"{file.parent.name}-{file.name}").write_text(yaml.safe_dump(item))
    program = client_python("checkov").with_name("checkov")
    command = [str(client_python("checkov")), str(program), "--directory", str(tmp_path), "--framework", "kubernetes"]
    options = ["--output", "json", "--compact", "--quiet", "--skip-download", "--skip-check", ",".join(EXCUSED)]
    checked = subprocess.run([*command, *options], capture_output=True, text=True, check=False, timeout=120)
    report = json.loads(checked.stdout)
    assert report["summary"]["passed"] > 100, checked.stderr
    failed = [f"{item['check_id']} {item['resource']}: {item['check_name']}" for item in
              report["results"]["failed_checks"]]  # fmt: skip
    assert failed == []
