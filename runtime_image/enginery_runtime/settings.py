"""Settings of the process, from ENGINERY_RUNTIME_* variables. Built once in `__main__` and passed down.

What is served comes from the request document of the operator; here is only how this process behaves. An unknown
variable with our prefix is a typo, and ends the process.
"""

from collections.abc import Mapping
from pathlib import Path

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from enginery_runtime.errors import ConfigurationError

PREFIX = "ENGINERY_RUNTIME_"
"""Every variable of ours begins with it."""


class Settings(BaseSettings):
    """Frozen; every field has a default that serves a pod as the operator renders it."""

    model_config = SettingsConfigDict(env_prefix=PREFIX, frozen=True, extra="forbid")

    log_level: str = Field(
        default="INFO", pattern="(?i)^(debug|info|warning|error)$", validation_alias="ENGINERY_LOG_LEVEL"
    )
    """Least level that is logged; the one variable that all programs share."""
    host: str = "0.0.0.0"  # noqa: S104 - a pod's address is not known before; NetworkPolicies say who may connect
    """Address all ports are opened on; `::` for IPv6."""
    rest_port: int = Field(default=8000, ge=1, le=65535)
    """REST and its health endpoints."""
    grpc_port: int = Field(default=8001, ge=1, le=65535)
    """gRPC, grpc.health.v1 included."""
    metrics_port: int = Field(default=8002, ge=1, le=65535)
    """/metrics, and nothing else."""
    work_folder: Path = Path("/var/lib/enginery")
    """Where the engine is fetched to, an emptyDir in a pod; needs room for one engine."""
    drain_delay_seconds: float = Field(default=5.0, ge=0, le=600)
    """How long requests are still served after SIGTERM: what the platform needs to take the address out of rotation."""
    grace_seconds: float = Field(default=80.0, ge=0, le=3600)
    """From SIGTERM to the moment at which unfinished requests are cut: some seconds less than the pod's
    terminationGracePeriodSeconds, which the operator sets to 90."""
    grpc_connection_age_seconds: float = Field(default=10.0, gt=0, le=3600)
    """A gRPC connection is asked to be made anew after this, give or take a tenth: so clients spread over replicas that
    came later, and a server that stops is left by all of them before it closes."""
    store_patience_seconds: float = Field(default=120.0, ge=0, le=3600)
    """How long a store that does not answer is asked again before the process ends with StoreUnavailable."""
    max_request_bytes: int = Field(default=64 * 1024 * 1024, ge=1024)
    """Largest request on either front end, decompressed."""
    max_inflight_bytes: int = Field(default=512 * 1024 * 1024, ge=1024)
    """Largest sum of all requests not answered yet."""
    max_queued_requests: int = Field(default=4096, ge=1)
    """Requests that may wait for the engine; the next one is told to come again."""
    max_header_bytes: int = Field(default=16 * 1024, ge=1024)
    """Largest request line and headers together."""
    header_timeout_seconds: float = Field(default=10.0, gt=0)
    """A client gets this long for its request line and headers."""
    body_timeout_seconds: float = Field(default=120.0, gt=0)
    """A client gets this long for its body."""
    idle_timeout_seconds: float = Field(default=75.0, gt=0)
    """A connection without a request is closed after this."""


def load_settings(environment: Mapping[str, str]) -> Settings:
    """Settings from the environment; raises ConfigurationError that names every variable at fault."""
    known = {f"{PREFIX}{name.upper()}" for name, field in Settings.model_fields.items() if not field.validation_alias}
    unknown = sorted(name for name in environment if name.startswith(PREFIX) and name not in known)
    if unknown:
        raise ConfigurationError(f"unknown settings: {', '.join(unknown)}; known are {', '.join(sorted(known))}")
    try:
        return Settings()
    except ValidationError as error:
        faults = "; ".join(f"{_variable(str(item['loc'][0]))}: {item['msg']}" for item in error.errors())
        raise ConfigurationError(f"settings are wrong: {faults}") from None


def _variable(name: str) -> str:
    """The variable of a field, which errors name by the field or by its alias."""
    return f"{PREFIX}{name.upper()}" if name in Settings.model_fields else name
