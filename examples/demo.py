"""The main job, end to end, as `make demo` runs it: apply one InferenceModel, get answered requests.

Sets up what a platform team sets up (chart, store users, a Tenant), then does what a tenant does (upload, apply, wait,
ask). The cluster keeps running; `make cluster-down` ends it.
"""

import argparse
import importlib.util
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType

import httpx
import numpy as np
import numpy.typing as npt
import onnxruntime
from enginery_cluster import platform_team
from enginery_cluster.state import Cluster
from enginery_cluster.steps import Steps

EXAMPLE = Path(__file__).parent / "01-file-classification"
NAMESPACE, MODEL = "team-a", "magika"
FILES, RIGHT_AT_LEAST = 50, 48
"""Files sent, and how many must get their right label."""


def _example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("classify", EXAMPLE / "classify.py")
    assert spec is not None and spec.loader is not None  # noqa: S101, PT018 - the file is beside this one
    module = importlib.util.module_from_spec(spec)
    sys.modules["classify"] = module
    spec.loader.exec_module(module)
    return module


def prepare(cluster: Cluster, classify: ModuleType, steps: Steps) -> platform_team.TenantAccess:
    """Chart, Tenant, the model and its evaluation data in object storage."""
    with steps.step("installing the chart with helm"):
        platform_team.install(cluster)
    with steps.step(f"creating tenant {NAMESPACE} with store users of its own"):
        access = platform_team.add_tenant(cluster, NAMESPACE)
    with steps.step("uploading the model and 200 labelled files for the accuracy gate"):
        platform_team.upload(cluster, access, "magika/model.onnx", classify.MODEL)
        with tempfile.TemporaryDirectory() as folder:
            data = Path(folder) / "files.npz"
            classify.evaluation_file(data, classify.samples(200, skip=20))
            platform_team.upload(cluster, access, "magika/evaluation/files.npz", data)
    return access


def serve(cluster: Cluster, steps: Steps) -> float:
    """Kubectl apply, kubectl wait; seconds from apply to Ready."""
    with steps.step("kubectl apply, then kubectl wait --for=condition=Ready"):
        started = time.perf_counter()
        platform_team.kubectl(cluster, "apply", "-f", str(EXAMPLE / "inferencemodel.yaml"))
        wait = ["wait", "--for=condition=Ready", f"imodel/{MODEL}", "-n", NAMESPACE, "--timeout=300s"]
        platform_team.kubectl(cluster, *wait)
    return time.perf_counter() - started


def address(cluster: Cluster) -> str:
    """The model's URL as this machine reaches it: the Service's own address in place of its cluster name."""
    service = json.loads(platform_team.kubectl(cluster, "get", "service", MODEL, "-n", NAMESPACE, "-o", "json"))
    return f"http://{service['spec']['clusterIP']}:8000"


def ask(url: str, classify: ModuleType) -> int:
    """Send the files one by one, print each answer, compare all with onnxruntime run directly; right labels."""
    session = onnxruntime.InferenceSession(str(classify.MODEL), providers=["CPUExecutionProvider"])
    names, right, worst = classify.labels(), 0, 0.0
    with httpx.Client(base_url=url, timeout=30) as client:
        for sample in classify.samples(FILES):
            row = classify.features(sample.path)[None, :]
            started = time.perf_counter()
            answer = _infer(client, classify, row)
            milliseconds = 1000 * (time.perf_counter() - started)
            direct = session.run([classify.OUTPUT], {classify.INPUT: row})[0]
            worst = max(worst, float(np.abs(answer - direct).max()))
            best = int(answer[0].argmax())
            right += names[best] == sample.label
            mark = " " if names[best] == sample.label else f"  <- is {sample.label}"
            print(f"  {names[best]:<16}{answer[0, best]:6.1%} {milliseconds:6.1f} ms  {_short(sample.path)}{mark}")
    print(f"{right} of {FILES} labels are right; largest difference to onnxruntime run directly: {worst:.1e}")
    if worst > 1e-4:  # noqa: PLR2004 - an optimised graph adds in another order, no more
        sys.exit("the served answers differ from onnxruntime's")
    return right


def _infer(client: httpx.Client, classify: ModuleType, row: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
    tensor = {"name": classify.INPUT, "shape": list(row.shape), "datatype": "INT32", "data": row.ravel().tolist()}
    answer = client.post(f"/v2/models/{MODEL}/infer", json={"inputs": [tensor]})
    answer.raise_for_status()
    output = answer.json()["outputs"][0]
    return np.array(output["data"], dtype=np.float32).reshape(output["shape"])


def _short(path: Path) -> str:
    return "/".join(path.parts[-3:])


def show(cluster: Cluster) -> None:
    """What kubectl says."""
    print("\n$ kubectl get imodel -n team-a -o wide")
    print(platform_team.kubectl(cluster, "get", "imodel", "-n", NAMESPACE, "-o", "wide"))
    print("conditions:")
    model = json.loads(platform_team.kubectl(cluster, "get", "imodel", MODEL, "-n", NAMESPACE, "-o", "json"))
    for condition in model["status"]["conditions"]:
        print(f"  {condition['type']:<17}{condition['status']:<8}{condition['reason']:<26}{condition['message']}")


def tell(cluster: Cluster, access: platform_team.TenantAccess, url: str) -> None:
    """What to type next."""
    tools = Path(cluster.kubectl).parent
    print(f"""
The cluster keeps running. To go on:

  export KUBECONFIG={cluster.kubeconfig}
  export PATH={tools}:$PATH          # kubectl and helm
  kubectl get imodel -A
  curl {url}/v2/models/{MODEL}

To serve a model of your own, upload it with any S3 client, for example:

  export AWS_ENDPOINT_URL_S3={cluster.s3.endpoint} AWS_REGION={cluster.s3.region}
  export AWS_ACCESS_KEY_ID={access.uploader.access_key} AWS_SECRET_ACCESS_KEY={access.uploader.secret_key}
  {sys.executable} -c "import boto3; boto3.client('s3').upload_file('model.onnx', \
'{platform_team.MODELS_BUCKET}', '{NAMESPACE}/mine/model.onnx')"

and apply

kubectl apply -f - <<END
apiVersion: enginery.io/v1alpha1
kind: InferenceModel
metadata: {{name: mine, namespace: {NAMESPACE}}}
spec:
  source: {{format: ONNX, uri: s3://{platform_team.MODELS_BUCKET}/{NAMESPACE}/mine/model.onnx}}
  accelerator: {{mode: CPU}}
  serving: {{resources: {{requests: {{cpu: 100m, memory: 256Mi}}}}}}
END
kubectl wait --for=condition=Ready imodel/mine -n {NAMESPACE} --timeout=300s
curl http://$(kubectl get service mine -n {NAMESPACE} -o jsonpath={{.spec.clusterIP}}):8000/v2/models/mine

What a field means: kubectl explain inferencemodel.spec.precision. When you are done: make cluster-down""")


def main() -> int:
    """Run the demo on the cluster named by --name; exit code 1 when too few labels are right."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--name", default="demo", help="which cluster of this checkout")
    cluster = Cluster.load(parser.parse_args().name)
    classify, steps = _example(), Steps("demo", 4)
    access = prepare(cluster, classify, steps)
    seconds = serve(cluster, steps)
    url = address(cluster)
    print(f"\nReady {seconds:.1f} s after kubectl apply. {FILES} files of this Python installation, sent to {url}:")
    right = ask(url, classify)
    show(cluster)
    tell(cluster, access, url)
    return 0 if right >= RIGHT_AT_LEAST else 1


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (RuntimeError, subprocess.CalledProcessError) as error:
        sys.exit(str(error))
