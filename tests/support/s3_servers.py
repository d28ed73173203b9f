"""S3 servers for tests: moto in a thread of the test's process, and any other one that the environment names.

    ENGINERY_S3_ENDPOINT, ENGINERY_S3_ACCESS_KEY, ENGINERY_S3_SECRET_KEY     a second server, for example versitygw

Every store test runs against each server there is.
"""

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import boto3
from botocore.config import Config
from enginery_cluster.state import Cluster
from enginery_store.client import Credentials, StoreClient
from enginery_store.layout import Location
from enginery_store.requests import StoreAccess
from moto.server import ThreadedMotoServer


@dataclass(frozen=True)
class S3Server:
    """One server; every test takes a bucket of its own."""

    name: str
    endpoint: str
    access_key: str
    secret_key: str

    @property
    def access(self) -> StoreAccess:
        return StoreAccess(endpoint=self.endpoint)

    @property
    def credentials(self) -> Credentials:
        return Credentials(access_key=self.access_key, secret_key=self.secret_key)

    def admin(self) -> Any:
        """A plain boto3 client, for what our own client does not do."""
        return boto3.client(
            "s3",
            endpoint_url=self.endpoint,
            aws_access_key_id=self.access_key,
            aws_secret_access_key=self.secret_key,
            region_name="us-east-1",
            config=Config(s3={"addressing_style": "path"}),
        )

    def bucket(self) -> "Bucket":
        name = f"test-{uuid.uuid4().hex[:12]}"
        admin = self.admin()
        admin.create_bucket(Bucket=name)
        return Bucket(self, name, admin)


@dataclass(frozen=True)
class Bucket:
    """A bucket with what a test puts there and looks for."""

    server: S3Server
    name: str
    admin: Any

    def put(self, key: str, data: bytes, metadata: dict[str, str] | None = None) -> None:
        self.admin.put_object(Bucket=self.name, Key=key, Body=data, Metadata=metadata or {})

    def get(self, key: str) -> bytes:
        data: bytes = self.admin.get_object(Bucket=self.name, Key=key)["Body"].read()
        return data

    def delete(self, key: str) -> None:
        self.admin.delete_object(Bucket=self.name, Key=key)

    def keys(self, prefix: str = "") -> list[str]:
        pages = self.admin.get_paginator("list_objects_v2").paginate(Bucket=self.name, Prefix=prefix)
        return sorted(item["Key"] for page in pages for item in page.get("Contents", []))

    def everything(self) -> dict[str, bytes]:
        return {key: self.get(key) for key in self.keys("")}

    def location(self, key: str) -> Location:
        return Location(self.name, key)

    def client(self, endpoint: str = "", **options: Any) -> StoreClient:
        access = self.server.access.model_copy(update={"endpoint": endpoint or self.server.endpoint, **options})
        return StoreClient(access, self.server.credentials, attempts=2)


@contextmanager
def moto_server() -> Iterator[S3Server]:
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield S3Server("moto", f"http://{host}:{port}", "test", "test-secret")
    finally:
        server.stop()


OTHER_IS_NAMED = "ENGINERY_S3_ENDPOINT" in os.environ
"""Whether somebody asks for every test to run on another server too."""


def other_server() -> S3Server:
    """The server that the environment names, else the one of the test cluster."""
    if OTHER_IS_NAMED:
        keys = (os.environ[f"ENGINERY_S3_{name}"] for name in ("ENDPOINT", "ACCESS_KEY", "SECRET_KEY"))
        return S3Server("other", *keys)
    s3 = Cluster.load("test").s3
    return S3Server("other", s3.endpoint, s3.access_key, s3.secret_key)
