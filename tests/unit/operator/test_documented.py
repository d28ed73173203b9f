"""Every word and every setting that people meet is in docs/reference, with the sentence that the code has under it.

ENGINERY_REWRITE=1 writes both pages anew, as it does golden files.
"""

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from enginery_operator import settings
from enginery_operator.api.v1alpha1 import InferenceModel, Tenant
from enginery_operator.decide import CONDITIONS, decide
from enginery_operator.settings import Jobs, Lease, Settings
from enginery_operator.tenancy import TENANT_CONDITIONS
from enginery_store import reasons
from enginery_store.reasons import FINAL_REASONS, Reason
from enginery_store.requests import EXIT_CODES
from pydantic import BaseModel
from support.api_objects import AModel
from support.examples import CLASSIFICATION, QUANTIZED, manifest
from support.observed import an_observed
from support.real_files import CALIBRATION, EVALUATION

ROOT = Path(__file__).parents[3]
DOCS = ROOT / "docs"
REASONS = """# Reasons

One word in a condition, an event, a termination message or a stored outcome. Final: nothing is tried again until the
spec, the source or the data change, or somebody mends what the message names. The code is that of a builder or runtime
container that ends with the reason; 10 to 49 fail a Job at once, 50 to 69 count against `build.backoffLimit`.

| reason | final | exit code | means |
|---|---|---|---|
"""
SETTINGS = """# Settings of the operator

Values of the chart below `config`. Everything else that can be set is in `helm/enginery/values.yaml` with its sentence.

| value | default | what it does |
|---|---|---|
"""


def sentences(module: Any, name: str) -> dict[str, str]:
    """What stands under each member of a class, by the member's name."""
    tree = ast.parse(Path(module.__file__).read_text())
    (found,) = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == name)
    said = {}
    for member, text in zip(found.body, found.body[1:], strict=False):
        target = member.targets[0] if isinstance(member, ast.Assign) else getattr(member, "target", None)
        if isinstance(target, ast.Name) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
            said[target.id] = " ".join(str(text.value.value).split())
    return said


def page_of_reasons() -> str:
    said = sentences(reasons, "Reason")
    rows = (
        f"| {item} | {'yes' if item in FINAL_REASONS else ''} | {EXIT_CODES.get(item, '')} | {said[item.name]} |\n"
        for item in sorted(Reason)
    )
    return REASONS + "".join(rows)


def settings_of(section: type[BaseModel], below: str = "") -> Iterator[tuple[str, Any, str]]:
    """(value, default, sentence) of every setting of a section."""
    said = sentences(settings, section.__name__)
    for name, field in section.model_fields.items():
        yield f"{below}{field.alias}", field.default, said.get(name, "")


def page_of_settings() -> str:
    general = [row for row in settings_of(Settings) if row[0] in config_keys()]
    rows = [*general, *settings_of(Jobs, "jobs."), *settings_of(Lease, "lease.")]
    assert [value for value, _, sentence in rows if not sentence] == []
    return SETTINGS + "".join(
        f"| `{value}` | {json.dumps(default)} | {sentence} |\n" for value, default, sentence in rows
    )


def config_keys() -> set[str]:
    """What the chart's schema lets people write."""
    schema = json.loads((ROOT / "helm/enginery/values.schema.json").read_text())
    return set(schema["properties"]["config"]["properties"]) - {"jobs", "lease"}


@pytest.mark.parametrize("name", ["reasons", "settings"])
def test_a_page_of_the_reference_is_what_the_code_says(name: str) -> None:
    text = {"reasons": page_of_reasons, "settings": page_of_settings}[name]()
    path = DOCS / "reference" / f"{name}.md"
    if os.environ.get("ENGINERY_REWRITE"):
        path.write_text(text)
    assert path.read_text() == text, "ENGINERY_REWRITE=1 writes it anew"


def test_the_chart_takes_every_setting_of_a_section() -> None:
    schema = json.loads((ROOT / "helm/enginery/values.schema.json").read_text())["properties"]["config"]["properties"]
    for name, section in (("jobs", Jobs), ("lease", Lease)):
        assert set(schema[name]["properties"]) == {field.alias for field in section.model_fields.values()}


def test_every_condition_is_explained() -> None:
    guide, operations = (DOCS / "user-guide.md").read_text(), (DOCS / "operations.md").read_text()
    assert [name for name in CONDITIONS if f"| {name} |" not in guide] == []
    assert [name for name in TENANT_CONDITIONS if f"| {name} |" not in operations] == []


def test_every_image_of_the_chart_is_explained() -> None:
    names = {field.alias for field in settings.Images.model_fields.values()} - {
        "converters",
        "pullPolicy",
        "pullSecrets",
    }
    names |= {f"converters.{field.alias}" for field in settings.Converters.model_fields.values()}
    operations = (DOCS / "operations.md").read_text()
    assert [name for name in sorted(names) if f"`images.{name}`" not in operations] == []


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{name}.md" for name in ("user-guide", "operations"))])
def test_fields_and_reasons_that_the_guides_name_exist(page: str) -> None:
    text = (ROOT / page).read_text()
    fields = {name for kind in (InferenceModel, Tenant) for name in _fields(kind.model_json_schema(by_alias=True))}
    named = set(
        re.findall(r"`(?:spec\.)?((?:precision|source|build|serving|shapes|policy|accelerator)\.[A-Za-z.]+)`", text)
    )
    assert [name for name in sorted(named) if name not in fields] == []


@pytest.mark.parametrize("example", [CLASSIFICATION, QUANTIZED], ids=lambda path: path.name)
def test_an_example_is_a_model_of_this_version(example: Path) -> None:
    seen = an_observed(AModel(yaml.safe_load(manifest(example, "team-a")))).build()
    assert decide(seen).conditions["Accepted"].holds


def test_the_quantized_example_asks_for_the_data_that_its_program_writes() -> None:
    precision = yaml.safe_load(manifest(QUANTIZED, "team-a"))["spec"]["precision"]
    asked = (precision["calibration"]["samples"], precision["accuracyGate"]["samples"])
    assert asked == (CALIBRATION, EVALUATION)


def _fields(schema: dict[str, Any]) -> set[str]:
    """Dotted paths below spec."""

    def walk(node: dict[str, Any], path: str) -> Iterator[str]:
        for option in (node, *node.get("anyOf", []), *node.get("allOf", [])):
            inner = schema["$defs"][option["$ref"].rpartition("/")[2]] if "$ref" in option else option
            for name, field in inner.get("properties", {}).items():
                here = f"{path}.{name}".lstrip(".")
                yield here
                yield from walk(field, here)

    return set(walk(schema["properties"]["spec"], ""))
