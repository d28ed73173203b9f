"""InferenceModel, assembled from its parts. Parsed by `handlers`, read everywhere, generated into CRDs by `crd`."""

from typing import Any, ClassVar, Literal

from pydantic import Field

from enginery_operator.api.precision import Accelerator, Build, Precision
from enginery_operator.api.schema import APIType, ruled
from enginery_operator.api.serving import Rollout, Route, Serving
from enginery_operator.api.source import Objective, Shapes, Source
from enginery_operator.api.status import InferenceModelStatus
from enginery_operator.api.tenant import Tenant

GROUP = "enginery.io"
"""API group of both kinds."""
VERSION = "v1alpha1"
"""The one version served and stored."""
API_VERSION = f"{GROUP}/{VERSION}"

NAME_LIMIT = 40
"""Longest name of an InferenceModel: with the longest suffix every child stays within 63 characters."""


class InferenceModelSpec(APIType):
    """What the tenant wants served."""

    model_config = ruled(
        ("self.precision.type != 'Auto' || has(self.objective)", "precision type Auto needs spec.objective"),
        (
            "!(self.serving.placement == 'Pooled' && self.rollout.strategy == 'Canary')",
            "placement Pooled and strategy Canary exclude each other",
        ),
        (
            "(self.serving.server == 'VLLM') == (has(self.source.task) && self.source.task == 'TextGeneration')",
            "task TextGeneration needs serving.server: VLLM, and the other way round",
        ),
        (
            (
                "!has(self.serving.batching) || !has(self.shapes.profiles) || self.shapes.profiles.exists(p,"
                " p.inputs.all(i, i.max.size() == 0 || i.max[0] >= self.serving.batching.maxBatchSize))"
            ),
            "batching.maxBatchSize must be at most the largest profile's max of the first dimension",
        ),
        (
            "self.accelerator.mode != 'CPU' || self.build.backend in ['Auto', 'ONNXRuntime']",
            "accelerator mode CPU needs build.backend Auto or ONNXRuntime",
        ),
    )

    state: Literal["Serving", "Stopped"] = Field(
        default="Serving", description="Serving, or Stopped: frees the quota and keeps the engines."
    )
    source: Source = Field(description="The trained model.")
    precision: Precision = Field(default_factory=Precision, description="Number format of the engine.")
    objective: Objective | None = Field(
        default=None, description="What precision Auto aims for; read with precision type Auto only."
    )
    shapes: Shapes = Field(default_factory=Shapes, description="Sizes the engine must serve.")
    build: Build = Field(default_factory=Build, description="How engines are compiled.")
    accelerator: Accelerator = Field(description="Device every replica serves on.")
    serving: Serving = Field(default_factory=Serving, description="How requests are answered.")
    route: Route | None = Field(default=None, description="Public address through a Gateway.")
    rollout: Rollout = Field(default_factory=Rollout, description="How a new revision replaces the old one.")


class InferenceModel(APIType):
    """A trained model that Enginery compiles for the devices it may run on, and serves."""

    model_config = ruled(
        (
            f"self.metadata.name.size() <= {NAME_LIMIT} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
            f"metadata.name must be a DNS label that starts with a letter, at most {NAME_LIMIT} characters",
        ),
    )
    KIND: ClassVar[str] = "InferenceModel"
    PLURAL: ClassVar[str] = "inferencemodels"

    metadata: dict[str, Any]
    spec: InferenceModelSpec = Field(description="What the tenant wants served.")
    status: InferenceModelStatus | None = Field(default=None, description="What is true now, and why.")

    @property
    def name(self) -> str:
        """metadata.name."""
        return str(self.metadata["name"])

    @property
    def namespace(self) -> str:
        """metadata.namespace."""
        return str(self.metadata["namespace"])

    @property
    def uid(self) -> str:
        """metadata.uid."""
        return str(self.metadata.get("uid", ""))

    @property
    def generation(self) -> int:
        """metadata.generation."""
        return int(self.metadata.get("generation", 0))


__all__ = ["API_VERSION", "GROUP", "VERSION", "InferenceModel", "InferenceModelSpec", "Tenant"]
