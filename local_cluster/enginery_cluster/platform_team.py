"""What a platform team does once: buckets and store users, the chart, and a Tenant with its Secrets.

Called by the demo, the tests and the benchmarks, so that all three run what a user would set up. Idempotent: a second
call finds its buckets, users and Secrets and changes nothing.
"""

import json
import secrets
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import boto3
import yaml
from botocore.exceptions import ClientError
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from enginery_cluster.binaries import VERSITYGW, binary_path
from enginery_cluster.places import CHECKOUT, Places
from enginery_cluster.state import Cluster, write_private

NAMESPACE = "enginery-system"
"""Where the chart is installed."""

MODELS_BUCKET = "models"
"""Where tenants upload what they trained: a folder per tenant."""

STORE_BUCKET = "enginery"
"""Where engines go: a prefix per tenant."""


@dataclass(frozen=True)
class StoreUser:
    """Keys of one user of the object store."""

    access_key: str
    secret_key: str


@dataclass(frozen=True)
class TenantAccess:
    """What was made for one tenant; `uploader` is what its people use to upload models."""

    name: str
    prefix: str
    builder: StoreUser
    runtime: StoreUser
    uploader: StoreUser
    signing_key: str
    public_key: str


def s3_client(cluster: Cluster, user: StoreUser | None = None) -> Any:
    """A boto3 client of the cluster's object store, as root or as one of its users."""
    return boto3.client(
        "s3",
        endpoint_url=cluster.s3.endpoint,
        region_name=cluster.s3.region,
        aws_access_key_id=user.access_key if user else cluster.s3.access_key,
        aws_secret_access_key=user.secret_key if user else cluster.s3.secret_key,
    )


def kubectl(cluster: Cluster, *arguments: str, given: object | None = None) -> str:
    """Run kubectl, with an object on standard input where one is given; its output. Raises on failure."""
    text = None if given is None else json.dumps(given)
    done = subprocess.run([cluster.kubectl, *arguments], input=text, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"kubectl {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def apply(cluster: Cluster, *objects: dict[str, Any]) -> None:
    """Kubectl apply of objects."""
    kubectl(cluster, "apply", "-f", "-", given={"apiVersion": "v1", "kind": "List", "items": list(objects)})


def install(cluster: Cluster, *, config: dict[str, Any] | None = None, replicas: int = 1) -> None:
    """Buckets, the operator's own store user, and the chart; returns when the operator is ready."""
    s3 = s3_client(cluster)
    for bucket in (MODELS_BUCKET, STORE_BUCKET):
        _make_bucket(s3, bucket)
    operator = _user(cluster, "operator")
    for bucket in (MODELS_BUCKET, STORE_BUCKET):
        _allow(cluster, bucket, operator, "", ["s3:GetObject"])
    apply(
        cluster,
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        _secret(NAMESPACE, "enginery-operator-store", operator, {}),
    )
    values = Places(cluster.name).state / "values.yaml"
    write_private(values, yaml.safe_dump(_values(cluster, config or {}, replicas)))
    command = [cluster.helm, "upgrade", "--install", "enginery", str(CHECKOUT / "helm/enginery")]
    options = ["--namespace", NAMESPACE, "--values", str(values), "--wait", "--timeout", "90s"]
    done = subprocess.run([*command, *options], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"helm: {done.stderr.strip()}\n{kubectl(cluster, '-n', NAMESPACE, 'get', 'pods')}")


def add_tenant(cluster: Cluster, name: str, *namespaces: str, spec: dict[str, Any] | None = None) -> TenantAccess:
    """A tenant with its namespaces, store users that reach only its own prefix, Secrets, and a signing key."""
    prefix = f"tenants/{name}/"
    access = _tenant_access(cluster, name, f"s3://{STORE_BUCKET}/{prefix}")
    own, everything = f"{name}/", ["s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload"]
    _allow(cluster, STORE_BUCKET, access.builder, prefix, everything)
    _allow(cluster, STORE_BUCKET, access.runtime, prefix, ["s3:GetObject"])
    _allow(cluster, MODELS_BUCKET, access.builder, own, ["s3:GetObject"])
    _allow(cluster, MODELS_BUCKET, access.uploader, own, everything)
    names = list(namespaces) or [name]
    apply(
        cluster,
        *({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}} for namespace in names),
    )
    apply(
        cluster,
        *(_secret(item, "enginery-builder", access.builder, {"signing.key": access.signing_key}) for item in names),
        *(_secret(item, "enginery-runtime", access.runtime, {}) for item in names),
        {
            "apiVersion": "enginery.io/v1alpha1",
            "kind": "Tenant",
            "metadata": {"name": name},
            "spec": {
                "namespaces": {"names": names},
                "policy": {"allowedSources": [f"s3://{MODELS_BUCKET}/{own}"]},
                "store": {"prefix": access.prefix, "publicKeys": [access.public_key]},
            }
            | (spec or {}),
        },
    )
    return access


def _values(cluster: Cluster, config: dict[str, Any], replicas: int) -> dict[str, Any]:
    def image(reference: str) -> dict[str, str]:
        repository, _, tag = reference.rpartition(":")
        return {"repository": repository, "tag": tag}

    tags = asdict(cluster.images)
    # Nothing computes on simulated GPUs: there the CPU images stand in for those of GPUs, and say what they lack.
    stand_ins = {"builderTensorRT": "builder", "runtimeTensorRT": "runtime", "runtimeTensorRTRTX": "runtime"}
    if cluster.provider == "existing":
        stand_ins = {}
    converters = {"tensorFlow": tags.pop("converter_tensorflow"), "pyTorch": tags.pop("converter_pytorch")}
    return {
        "images": {name: image(tag) for name, tag in tags.items()}
        | {"converters": {name: image(tag) for name, tag in converters.items() if tag}}
        | {name: image(tags[program]) for name, program in stand_ins.items()}
        | {"pullPolicy": "Never" if cluster.provider == "namespaces" else "IfNotPresent"},
        "store": {"endpoint": cluster.s3.endpoint, "region": cluster.s3.region},
        "replicas": replicas,
        "config": config,
        # Simulated nodes would take the operator's pod and never run it.
        "nodeSelector": {"kubernetes.io/hostname": cluster.node_name} if cluster.provider == "namespaces" else {},
    }


def _tenant_access(cluster: Cluster, name: str, prefix: str) -> TenantAccess:
    """The tenant's users and keys; made once and kept beside the cluster's other credentials."""
    path = Places(cluster.name).state / f"tenant-{name}.json"
    if path.exists():
        kept = json.loads(path.read_text())
        users = {role: StoreUser(**kept[role]) for role in ("builder", "runtime", "uploader")}
        return TenantAccess(**(kept | users))
    key = Ed25519PrivateKey.generate()
    access = TenantAccess(
        name=name,
        prefix=prefix,
        builder=_user(cluster, f"{name}-builder"),
        runtime=_user(cluster, f"{name}-runtime"),
        uploader=_user(cluster, f"{name}-uploader"),
        signing_key=key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        public_key=key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode(),
    )
    write_private(path, json.dumps(asdict(access)))
    return access


def _secret(namespace: str, name: str, user: StoreUser, more: dict[str, str]) -> dict[str, Any]:
    keys = {"AWS_ACCESS_KEY_ID": user.access_key, "AWS_SECRET_ACCESS_KEY": user.secret_key}
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": name, "namespace": namespace},
        "stringData": keys | more,
    }


def _make_bucket(s3: Any, bucket: str) -> None:
    try:
        s3.create_bucket(Bucket=bucket)
    except ClientError as error:
        if error.response["Error"]["Code"] not in {"BucketAlreadyOwnedByYou", "BucketAlreadyExists"}:
            raise


def _user(cluster: Cluster, name: str) -> StoreUser:
    """A user of the store with keys of its own. An object store that is not ours has users of its own: then root's
    keys stand in, which prove nothing about access.
    """
    path = Places(cluster.name).state / f"store-user-{name}.json"
    if path.exists():
        return StoreUser(**json.loads(path.read_text()))
    if cluster.provider != "namespaces":
        return StoreUser(cluster.s3.access_key, cluster.s3.secret_key)
    user = StoreUser(name, secrets.token_urlsafe(24))
    command = [
        str(binary_path(VERSITYGW)), "admin", "--access", cluster.s3.access_key, "--secret", cluster.s3.secret_key,
        "--endpoint-url", cluster.s3.endpoint, "create-user", "--access", user.access_key, "--secret",
        user.secret_key, "--role", "user",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"creating store user {name} failed: {done.stderr.strip() or done.stdout.strip()}")
    write_private(path, json.dumps(asdict(user)))
    return user


def _allow(cluster: Cluster, bucket: str, user: StoreUser, prefix: str, actions: list[str]) -> None:
    """Add statements to a bucket's policy: these actions on objects below a prefix, and listing below it."""
    if cluster.provider != "namespaces":
        return
    s3 = s3_client(cluster)
    try:
        policy = json.loads(s3.get_bucket_policy(Bucket=bucket)["Policy"])
    except ClientError as error:
        # Any other error, taken for the absence of a policy, would take away what every other tenant was given.
        if error.response["Error"]["Code"] != "NoSuchBucketPolicy":
            raise
        policy = {"Version": "2012-10-17", "Statement": []}
    principal = {"AWS": [user.access_key]}
    listing: dict[str, Any] = {
        "Effect": "Allow",
        "Principal": principal,
        "Action": ["s3:ListBucket"],
        "Resource": [f"arn:aws:s3:::{bucket}"],
    }
    if prefix:
        listing["Condition"] = {"StringLike": {"s3:prefix": [f"{prefix}*"]}}
    objects = {
        "Effect": "Allow",
        "Principal": principal,
        "Action": actions,
        "Resource": [f"arn:aws:s3:::{bucket}/{prefix}*"],
    }
    missing = [statement for statement in (listing, objects) if statement not in policy["Statement"]]
    if missing:
        policy["Statement"] += missing
        s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps(policy))


def upload(cluster: Cluster, access: TenantAccess, name: str, path: Path) -> str:
    """Upload a file as the tenant's people would; the URI for spec.source.uri."""
    key = f"{access.name}/{name}"
    s3_client(cluster, access.uploader).upload_file(str(path), MODELS_BUCKET, key)
    return f"s3://{MODELS_BUCKET}/{key}"
