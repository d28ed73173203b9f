"""Tenant: who may use what. Cluster-scoped, made by the platform team."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from enginery_operator.api.schema import (
    NO_HOST_RULE,
    PEM,
    S3_SCHEME_RULE,
    SET_LIST,
    URI,
    APIType,
    Label,
    Name,
    Quantity,
    Text,
    map_list,
    ruled,
    rules,
)
from enginery_operator.api.status import TenantStatus


class LabelRequirement(APIType):
    """One expression of a selector."""

    key: Annotated[str, Field(max_length=317)] = Field(description="Label key.")
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"] = Field(description="How values compare.")
    values: Annotated[list[Annotated[str, Field(max_length=63)]], Field(max_length=32)] | None = Field(
        default=None, description="Values to compare with.", json_schema_extra=SET_LIST
    )


class LabelSelector(APIType):
    """Selects namespaces by labels."""

    match_labels: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] | None = Field(
        default=None, description="Labels that must be equal. Example: {team: a}."
    )
    match_expressions: Annotated[list[LabelRequirement], Field(max_length=16)] | None = Field(
        default=None,
        description="Expressions that must hold.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class Namespaces(APIType):
    """Namespaces that belong to the tenant."""

    model_config = ruled(
        ("has(self.names) != has(self.selector)", "give exactly one of names and selector"),
        (
            "!has(self.names) || !self.names.exists(n, n.startsWith('kube-') || n == 'enginery-system')",
            "system namespaces (kube-*, enginery-system) belong to no tenant",
        ),
    )

    names: Annotated[list[Label], Field(min_length=1, max_length=64)] | None = Field(
        default=None, description="Names of namespaces. Example: [team-a, team-a-dev].", json_schema_extra=SET_LIST
    )
    selector: LabelSelector | None = Field(default=None, description="Selects namespaces by their labels.")


class Admin(APIType):
    """A subject bound to the tenant-admin role."""

    kind: Literal["User", "Group", "ServiceAccount"] = Field(description="Kind of the subject. Example: Group.")
    name: Name = Field(description="Name of the subject. Example: team-a-ml.")
    namespace: Label | None = Field(default=None, description="Namespace of a ServiceAccount.")


class AcceleratorQuota(APIType):
    """Slices of one kind."""

    model_config = ruled(("!has(self.maxBuild) || self.maxBuild <= self.max", "maxBuild must be at most max"))

    resource: Annotated[
        str, Field(max_length=128, pattern=r"^nvidia\.com/(gpu|mig-[1-7]g\.[1-9][0-9]*gb([.+-]me(\.all)?|[.+]gfx)?)$")
    ] = Field(description="nvidia.com/gpu, or nvidia.com/mig-<profile>. Example: nvidia.com/mig-1g.18gb.")
    max: Annotated[int, Field(ge=0, le=10_000)] = Field(description="Slices for serving and building together.")
    max_build: Annotated[int, Field(ge=0, le=10_000)] | None = Field(
        default=None, description="Of these, slices that builds may take. Example: 2."
    )


class BuildQuota(APIType):
    """Bounds on builds."""

    max_concurrent: Annotated[int, Field(ge=1, le=1000)] = Field(
        default=2, description="Builder Jobs at once. Example: 2."
    )


class Quota(APIType):
    """What the tenant may use."""

    accelerators: Annotated[list[AcceleratorQuota], Field(max_length=32)] | None = Field(
        default=None,
        description="Slices by resource; what is not listed is not granted.",
        json_schema_extra=map_list("resource"),
    )
    models: Annotated[int, Field(ge=0, le=100_000)] | None = Field(
        default=None, description="Most InferenceModels. Example: 20."
    )
    builds: BuildQuota = Field(default_factory=BuildQuota, description="Bounds on builds.")
    store: Quantity | None = Field(default=None, description="Size of the tenant's part of the store. Example: 200Gi.")


class Toleration(APIType):
    """A pod toleration."""

    key: Annotated[str, Field(max_length=317)] | None = Field(default=None, description="Taint key.")
    operator: Literal["Exists", "Equal"] | None = Field(default=None, description="How the value compares.")
    value: Annotated[str, Field(max_length=63)] | None = Field(default=None, description="Taint value.")
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = Field(
        default=None, description="Taint effect."
    )


class Scheduling(APIType):
    """Where and how the tenant's pods are placed."""

    queue_name: Annotated[str, Field(max_length=63)] = Field(
        default="", description="Kueue LocalQueue that build Jobs are handed to; empty: none."
    )
    priority_class_name: Annotated[str, Field(max_length=253)] = Field(
        default="", description="PriorityClass of the tenant's pods; empty: the cluster's default."
    )
    node_selector: Annotated[dict[str, Annotated[str, Field(max_length=63)]], Field(max_length=16)] | None = Field(
        default=None, description="Labels of nodes the tenant's pods may use."
    )
    tolerations: Annotated[list[Toleration], Field(max_length=16)] | None = Field(
        default=None,
        description="Taints the tenant's pods tolerate.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )


class TrustedKey(APIType):
    """A key that signs sources."""

    name: Label = Field(description="Name models refer to. Example: team-a-key.")
    public_key: PEM = Field(description="Ed25519 public key, PEM.")


class Policy(APIType):
    """What the tenant's models may be."""

    model_config = ruled(
        (
            "self.signatures != 'Require' || (has(self.trustedKeys) && self.trustedKeys.size() > 0)",
            "signatures: Require needs trustedKeys",
        ),
    )

    allowed_formats: (
        Annotated[
            list[Literal["ONNX", "TensorFlowSavedModel", "PyTorchExport", "HuggingFace"]],
            Field(min_length=1, max_length=4),
        ]
        | None
    ) = Field(default=None, description="Source formats that are allowed; absent: all.", json_schema_extra=SET_LIST)
    allowed_precisions: (
        Annotated[list[Literal["Auto", "FP32", "FP16", "BF16", "INT8", "FP8"]], Field(min_length=1, max_length=6)]
        | None
    ) = Field(
        default=None,
        description="Precisions that are allowed; absent: all. Auto needs every precision allowed that it may come to:"
        " FP32, on GPUs FP16, and INT8 where the model names calibration data and a gate.",
        json_schema_extra=SET_LIST,
    )
    allowed_sources: (
        Annotated[list[Annotated[str, Field(min_length=6, max_length=512)]], Field(min_length=1, max_length=32)] | None
    ) = Field(
        default=None,
        description="Prefixes that sources must lie under, each ending in /; absent: all. Example:"
        " [s3://models/team-a/].",
        json_schema_extra={
            **SET_LIST,
            **rules(("self.all(s, s.endsWith('/'))", "every allowed source must end in /, or it allows its siblings")),
        },
    )
    signatures: Literal["Ignore", "Warn", "Require"] = Field(
        default="Ignore", description="Whether sources must carry a signature of trustedKeys."
    )
    trusted_keys: Annotated[list[TrustedKey], Field(max_length=16)] | None = Field(
        default=None, description="Keys that sign sources.", json_schema_extra=map_list("name")
    )
    capture: Literal["Forbid", "Allow"] = Field(
        default="Forbid", description="Whether models may sample live traffic for calibration."
    )
    network_isolation: Literal["Enforced", "Disabled"] = Field(
        default="Enforced", description="Whether NetworkPolicies isolate the tenant's namespaces."
    )


class TenantStore(APIType):
    """The tenant's part of the model store."""

    prefix: URI = Field(
        description="Where the tenant's engines live; ends in /. Immutable. Example: s3://enginery/tenants/team-a/.",
        json_schema_extra=rules(
            S3_SCHEME_RULE,
            NO_HOST_RULE,
            ("self.endsWith('/')", "prefix must end in /"),
            ("self == oldSelf", "prefix is immutable; create another Tenant for another prefix"),
        ),
    )
    builder_secret_name: Name = Field(
        default="enginery-builder",
        description="Secret in each namespace, made by the platform: write access to the prefix, and signing.key"
        " (Ed25519 private key, PEM).",
    )
    runtime_secret_name: Name = Field(
        default="enginery-runtime",
        description="Secret in each namespace, made by the platform: read access to the prefix.",
    )
    service_account_annotations: (
        Annotated[dict[str, Annotated[str, Field(max_length=512)]], Field(max_length=16)] | None
    ) = Field(default=None, description="Annotations of the pods' ServiceAccount, for workload identity.")
    public_keys: Annotated[list[PEM], Field(max_length=8)] | None = Field(
        default=None,
        description="Ed25519 public keys that manifests must be signed with; several during rotation.",
        json_schema_extra={"x-kubernetes-list-type": "atomic"},
    )
    endpoint: Annotated[str, Field(max_length=512, pattern="^https?://")] | None = Field(
        default=None, description="URL of the S3 endpoint; absent: the installation's."
    )
    region: Annotated[str, Field(max_length=64)] | None = Field(
        default=None, description="Region; absent: the installation's. Example: eu-west-1."
    )
    addressing: Literal["Auto", "Path", "Virtual"] | None = Field(
        default=None, description="Bucket in the path or in the host name; absent: the installation's."
    )
    checksums: Literal["WhenRequired", "WhenSupported"] | None = Field(
        default=None, description="When the client adds checksum headers by itself; absent: the installation's."
    )
    ca_bundle: Annotated[str, Field(max_length=65_536)] | None = Field(
        default=None, description="PEM certificates of the CAs that sign the endpoint; absent: the installation's."
    )


class TenantSpec(APIType):
    """What a tenant owns and may do."""

    display_name: Annotated[str, Field(max_length=128)] = Field(
        default="", description="Name for people. Example: Team A."
    )
    namespaces: Namespaces = Field(description="Namespaces that belong to the tenant; each to at most one.")
    admins: Annotated[list[Admin], Field(max_length=32)] | None = Field(
        default=None,
        description="Subjects bound to the tenant-admin role in each namespace.",
        json_schema_extra=map_list("kind", "name"),
    )
    quota: Quota | None = Field(default=None, description="What the tenant may use; absent: no bound.")
    scheduling: Scheduling = Field(default_factory=Scheduling, description="Where the tenant's pods are placed.")
    policy: Policy = Field(default_factory=Policy, description="What the tenant's models may be.")
    store: TenantStore = Field(description="The tenant's part of the model store.")
    stop_policy: Literal["None", "Hold", "HoldAndDrain"] = Field(
        default="None", description="Hold: nothing new starts. HoldAndDrain: serving ends too."
    )


class Tenant(APIType):
    """A tenant: namespaces, quota, policy and a part of the model store."""

    model_config = ruled(
        (
            "self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            "metadata.name must be a DNS label that starts with a letter, at most 40 characters",
        ),
    )
    KIND: ClassVar[str] = "Tenant"
    PLURAL: ClassVar[str] = "tenants"

    metadata: dict[str, Any]
    spec: TenantSpec = Field(description="What a tenant owns and may do.")
    status: TenantStatus | None = Field(default=None, description="What is true of the tenant now.")

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.metadata["name"])

    @property
    def generation(self) -> int:
        """metadata.generation."""
        return int(self.metadata.get("generation", 0))


__all__ = ["Tenant", "TenantSpec", "Text"]
