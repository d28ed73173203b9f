"""Generates the CRDs from the API types: `python -m enginery_operator.crd [--check]`.

Called by `make generate` and `make check`. Writes `crds/` and the chart's templates from one source, so that they
cannot differ; a test compares them. Pydantic's JSON schema becomes a structural schema: references are inlined,
`X or null` becomes an optional X, titles go, and a field whose default is a type of ours gets its defaults.
"""

import argparse
import sys
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel

from enginery_operator.api.v1alpha1 import GROUP, VERSION, InferenceModel, Tenant

_ROOT = Path(__file__).resolve().parents[2]
_KEPT = (
    "type", "description", "enum", "pattern", "format", "default", "minimum", "maximum", "minLength", "maxLength",
    "minItems", "maxItems", "maxProperties", "x-kubernetes-validations", "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
)  # fmt: skip

MODEL_COLUMNS = [
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0),
    ("Engines", "string", ".status.engineSummary", 0),
    ("Precision", "string", ".status.precision.effective", 0),
    ("Accelerator", "string", ".status.acceleratorSummary", 0),
    ("Replicas", "integer", ".status.readyReplicas", 0),
    ("Age", "date", ".metadata.creationTimestamp", 0),
    ("URL", "string", ".status.url", 1),
    ("Revision", "string", ".status.currentRevision", 1),
    ("Message", "string", '.status.conditions[?(@.type=="Ready")].message', 1),
]
"""Printer columns of InferenceModel: name, type, path, priority (1: only with -o wide)."""

TENANT_COLUMNS = [
    ("Ready", "string", '.status.conditions[?(@.type=="Ready")].status', 0),
    ("Reason", "string", '.status.conditions[?(@.type=="Ready")].reason', 0),
    ("Namespaces", "string", ".status.namespaces", 0),
    ("Models", "integer", ".status.models.total", 0),
    ("Prefix", "string", ".spec.store.prefix", 1),
    ("Age", "date", ".metadata.creationTimestamp", 0),
]
"""Printer columns of Tenant."""


def structural_schema(kind: type[BaseModel]) -> dict[str, Any]:
    """OpenAPI v3 structural schema of a type, as a CRD wants it."""
    document = kind.model_json_schema(by_alias=True)
    return _convert(document, document.get("$defs", {}), kind)


def _convert(node: dict[str, Any], definitions: dict[str, Any], kind: type[BaseModel] | None = None) -> dict[str, Any]:
    node = _inline(node, definitions)
    out = {key: node[key] for key in _KEPT if key in node and node[key] is not None}
    if "const" in node:
        out |= {"type": "string", "enum": [node["const"]]}
    if node.get("type") == "object" and "properties" in node:
        out["properties"] = {name: _convert(item, definitions) for name, item in node["properties"].items()}
        if required := node.get("required"):
            out["required"] = required
        for name in set(node["properties"]) - set(node.get("required", [])):
            _default_object(out["properties"][name], node["properties"][name])
    elif isinstance(node.get("additionalProperties"), dict):
        out["additionalProperties"] = _convert(node["additionalProperties"], definitions)
    if "items" in node:
        out["items"] = _convert(node["items"], definitions)
    if kind is not None:
        out["properties"]["metadata"] = {"type": "object"}
        out["properties"] = {"apiVersion": {"type": "string"}, "kind": {"type": "string"}} | out["properties"]
        out["required"] = ["spec"]
    return out


def _inline(node: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Replace a reference or an optional by what it stands for; the field's own words win over the type's."""
    rest = {key: value for key, value in node.items() if key not in {"$ref", "anyOf", "allOf"}}
    if reference := node.get("$ref"):
        return _inline(definitions[reference.rsplit("/", 1)[-1]], definitions) | rest
    if choices := node.get("anyOf"):
        kept = [choice for choice in choices if choice.get("type") != "null"]
        return _inline(kept[0], definitions) | rest
    return node


def _default_object(schema: dict[str, Any], field: dict[str, Any]) -> None:
    """A field made by a default factory is an object of defaults; written out, as CEL rules see the default itself."""
    if schema.get("type") == "object" and "$ref" in field:
        inner = schema["properties"].items()
        schema["default"] = {name: item["default"] for name, item in inner if "default" in item}


def custom_resource_definition(
    kind: type[InferenceModel | Tenant], *, scope: str, short_names: list[str], columns: list[tuple[str, str, str, int]]
) -> dict[str, Any]:
    """The CRD of one kind."""
    version: dict[str, Any] = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": name, "type": type_, "jsonPath": path} | ({"priority": 1} if priority else {})
            for name, type_, path, priority in columns
        ],
        "schema": {"openAPIV3Schema": structural_schema(kind)},
        "subresources": {"status": {}},
    }
    if kind is InferenceModel:
        version["subresources"]["scale"] = {
            "specReplicasPath": ".spec.serving.replicas",
            "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "names": {
                "kind": kind.KIND,
                "listKind": f"{kind.KIND}List",
                "plural": kind.PLURAL,
                "singular": kind.KIND.lower(),
                "shortNames": short_names,
                "categories": ["enginery"],
            },
            "scope": scope,
            "versions": [version],
        },
    }


def definitions() -> dict[str, dict[str, Any]]:
    """Both CRDs by file name."""
    return {
        "inferencemodels.yaml": custom_resource_definition(
            InferenceModel, scope="Namespaced", short_names=["imodel", "imodels"], columns=MODEL_COLUMNS
        ),
        "tenants.yaml": custom_resource_definition(
            Tenant, scope="Cluster", short_names=["mtenant"], columns=TENANT_COLUMNS
        ),
    }


def rendered() -> dict[Path, str]:
    """Every generated file, relative to the repository, with its text."""
    files: dict[Path, str] = {}
    for name, crd in definitions().items():
        files[Path("crds") / name] = _HEADER + yaml.safe_dump(crd, sort_keys=False, width=120)
        files[Path("helm/enginery/templates") / f"crd-{name}"] = _chart_template(crd)
    return files


_HEADER = "# Generated by python -m enginery_operator.crd from the API types; edit those.\n"


def _chart_template(crd: dict[str, Any]) -> str:
    """The chart's copy: installed with the release, upgraded with it, and kept when the release goes."""
    marked = crd | {"metadata": crd["metadata"] | {"annotations": {"helm.sh/resource-policy": "keep"}}}
    text = yaml.safe_dump(marked, sort_keys=False, width=120)
    if "{{" in text:
        raise ValueError("a description holds {{, which Helm would evaluate")
    return f"{{{{- if .Values.crds.enabled }}}}\n{_HEADER}{text}{{{{- end }}}}\n"


def main(arguments: list[str] | None = None) -> int:
    """Write the files, or with --check compare them; returns the exit code."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit 1 when a file is not current")
    check = parser.parse_args(arguments).check
    stale = []
    for name, text in rendered().items():
        path = _ROOT / name
        if path.is_file() and path.read_text() == text:
            continue
        stale.append(str(name))
        if not check:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
    if stale and check:
        sys.stderr.write(f"not current, run `make generate`: {', '.join(stale)}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
