"""The CRDs by the rules of Kubernetes' API conventions, as kube-api-linter has them, on the committed YAML."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from enginery_operator.crd import definitions
from support.api_objects import schema_of

PLURALS = ("inferencemodels", "tenants")
Node = dict[str, Any]


def walk(schema: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Every field with its dotted path; items of lists and values of maps included."""
    for name, inner in schema.get("properties", {}).items():
        where = f"{path}.{name}".lstrip(".")
        if where in {"apiVersion", "kind", "metadata"}:
            continue
        yield where, inner
        yield from walk(inner, where)
    for kind in ("items", "additionalProperties"):
        if isinstance(schema.get(kind), dict):
            yield f"{path}[]", schema[kind]
            yield from walk(schema[kind], f"{path}[]")


FIELDS = {f"{plural}: {path}": node for plural in PLURALS for path, node in walk(schema_of(plural))}


def of_type(kind: str) -> dict[str, Node]:
    return {path: node for path, node in FIELDS.items() if node["type"] == kind}


def test_there_is_something_to_look_at() -> None:
    assert len(FIELDS) > 200


def test_every_field_has_one_type_and_none_is_a_float() -> None:
    assert {node["type"] for node in FIELDS.values()} <= {"object", "array", "string", "integer", "boolean"}


def test_no_boolean_stands_in_a_spec() -> None:
    """A third value may come; status holds facts."""
    assert [path for path in of_type("boolean") if ": status." not in path] == []


def test_every_string_is_bounded() -> None:
    assert [path for path, node in of_type("string").items() if "maxLength" not in node and "enum" not in node] == []


def test_every_list_is_bounded_and_says_how_it_merges() -> None:
    for path, node in of_type("array").items():
        assert 0 < node.get("maxItems", 0) <= 64, path
        assert node.get("x-kubernetes-list-type") in {"map", "set", "atomic"}, path
        if node["x-kubernetes-list-type"] == "map":
            keys = node["x-kubernetes-list-map-keys"]
            assert set(keys) <= set(node["items"].get("required", [])), path
        if node["x-kubernetes-list-type"] == "set":
            assert node["items"]["type"] != "object", path


def test_lists_of_named_objects_are_maps() -> None:
    for path, node in of_type("array").items():
        if node["items"]["type"] == "object" and "name" in node["items"]["properties"]:
            assert node["x-kubernetes-list-type"] == "map", path


def test_every_map_is_bounded() -> None:
    maps = {path: node for path, node in of_type("object").items() if "additionalProperties" in node}
    assert maps
    assert [path for path, node in maps.items() if not 0 < node.get("maxProperties", 0) <= 16] == []


def test_every_number_is_bounded_below_and_those_of_a_spec_above() -> None:
    for path, node in of_type("integer").items():
        assert node.get("minimum", -1) >= 0, path
        if ": spec." in path:
            assert "maximum" in node, path


def test_no_phase() -> None:
    assert [path for path in FIELDS if re.search(r"\bphase\b", path, re.IGNORECASE)] == []


def test_every_field_has_a_description() -> None:
    bare = [path for path, node in FIELDS.items() if not path.endswith("[]") and len(node.get("description", "")) < 4]
    assert bare == []


def test_every_object_in_a_list_is_described() -> None:
    objects = {path: node for path, node in FIELDS.items() if path.endswith("[]") and node["type"] == "object"}
    assert [path for path, node in objects.items() if not node.get("description")] == []


def test_numbers_of_a_spec_show_an_example_or_their_range() -> None:
    for path, node in of_type("integer").items():
        if ": spec." in path and not path.endswith("[]"):
            assert re.search(r"[Ee]xample|\d", node["description"]) or path.endswith("accelerators[].max"), path


def test_quantities_of_time_and_size_have_their_unit_in_the_name_and_the_words() -> None:
    for path, node in FIELDS.items():
        leaf = path.rsplit(".", 1)[-1]
        for name, unit in {"Seconds": "second", "Milliseconds": "milliseconds", "Microseconds": "microsecond"}.items():
            if leaf.endswith(name) and node["type"] == "integer" and ": spec." in path:
                assert unit in node["description"], path


@pytest.mark.parametrize("plural", PLURALS)
def test_conditions_are_the_standard_ones(plural: str) -> None:
    conditions = schema_of(plural)["properties"]["status"]["properties"]["conditions"]
    assert (conditions["x-kubernetes-list-type"], conditions["x-kubernetes-list-map-keys"]) == ("map", ["type"])
    item = conditions["items"]
    assert set(item["required"]) == {"type", "status", "lastTransitionTime", "reason", "message"}
    assert item["properties"]["status"]["enum"] == ["True", "False", "Unknown"]
    assert item["properties"]["lastTransitionTime"]["format"] == "date-time"
    assert item["properties"]["reason"]["pattern"] == "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"
    assert item["properties"]["message"]["maxLength"] <= 32768


def test_field_names_are_camel_case() -> None:
    for path in FIELDS:
        leaf = path.rsplit(".", 1)[-1].split(": ")[-1].removesuffix("[]")
        assert re.fullmatch(r"[a-z][A-Za-z0-9]*", leaf), path


def test_enums_are_camel_case_with_acronyms_upper() -> None:
    theirs = {"inferencemodels: spec.serving.vllm.dtype"}  # vLLM's own words
    for path, node in FIELDS.items():
        for value in node.get("enum", []):
            assert path in theirs or re.fullmatch(r"[A-Z][A-Za-z0-9]*", value), (path, value)


def test_every_rule_says_what_to_write() -> None:
    for plural in PLURALS:
        nodes = [schema_of(plural), *(node for _, node in walk(schema_of(plural)))]
        rules = [rule for node in nodes for rule in node.get("x-kubernetes-validations", [])]
        assert len(rules) >= 8
        assert all(len(rule["message"]) > 15 for rule in rules)


def test_defaults_are_values_of_their_fields() -> None:
    for path, node in FIELDS.items():
        if "default" not in node:
            continue
        default = node["default"]
        kinds = {"object": dict, "array": list, "string": str, "integer": int, "boolean": bool}
        assert isinstance(default, kinds[node["type"]]), path
        if "enum" in node:
            assert default in node["enum"], path
        if node["type"] == "integer":
            assert node.get("minimum", default) <= default <= node.get("maximum", default), path


def test_a_required_field_has_no_default() -> None:
    for plural in PLURALS:
        for path, node in [("", schema_of(plural)), *walk(schema_of(plural))]:
            for name in node.get("required", []):
                assert "default" not in node["properties"][name], f"{path}.{name}"


def test_lists_that_should_be_sets_hold_distinct_defaults() -> None:
    for path, node in of_type("array").items():
        if node["x-kubernetes-list-type"] == "set" and "default" in node:
            assert len(set(node["default"])) == len(node["default"]), path


def test_names_scope_and_subresources() -> None:
    models, tenants = (item["spec"] for item in definitions().values())
    assert (models["scope"], models["names"]["shortNames"]) == ("Namespaced", ["imodel", "imodels"])
    assert (tenants["scope"], tenants["names"]["shortNames"]) == ("Cluster", ["mtenant"])
    assert models["names"]["categories"] == tenants["names"]["categories"] == ["enginery"]
    assert models["versions"][0]["subresources"]["scale"] == {
        "specReplicasPath": ".spec.serving.replicas",
        "statusReplicasPath": ".status.replicas",
        "labelSelectorPath": ".status.selector",
    }
    assert "scale" not in tenants["versions"][0]["subresources"]
    assert all(item["versions"][0]["subresources"]["status"] == {} for item in (models, tenants))


def test_printer_columns_are_those_of_the_api() -> None:
    models = definitions()["inferencemodels.yaml"]["spec"]["versions"][0]["additionalPrinterColumns"]
    narrow = [item["name"].upper() for item in models if not item.get("priority")]
    wide = [item["name"].upper() for item in models if item.get("priority")]
    assert narrow == ["READY", "REASON", "ENGINES", "PRECISION", "ACCELERATOR", "REPLICAS", "AGE"]
    assert wide == ["URL", "REVISION", "MESSAGE"]
