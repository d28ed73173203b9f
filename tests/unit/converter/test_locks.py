"""What a converter's image holds is what pyproject.toml says, and can be installed without an S3 client."""

import re
import tomllib
from importlib.metadata import version

import pytest
from enginery_cluster.places import CHECKOUT
from enginery_converter.convert import FRAMEWORKS

CONVERTERS = {
    "tensorflow": FRAMEWORKS["TensorFlowSavedModel"].distributions,
    "pytorch": FRAMEWORKS["HuggingFace"].distributions,
}


def locked(framework: str) -> dict[str, str]:
    lines = (CHECKOUT / "converter" / f"{framework}.lock").read_text().splitlines()
    found = [re.match(r"([\w.-]+)==([^ ;]+)", line) for line in lines if not line.startswith("#")]
    return {match[1]: match[2] for match in found if match}


@pytest.mark.parametrize("framework", CONVERTERS)
def test_lock_follows_the_extra(framework: str) -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())["project"]
    pins = dict(pin.split("==") for pin in project["optional-dependencies"][f"converter-{framework}"])

    assert pins.items() <= locked(framework).items()


@pytest.mark.parametrize("framework", CONVERTERS)
def test_versions_that_are_recorded_are_locked(framework: str) -> None:
    assert set(CONVERTERS[framework]) <= locked(framework).keys()


@pytest.mark.parametrize("framework", CONVERTERS)
def test_image_has_our_pydantic_and_no_way_to_a_store(framework: str) -> None:
    found = locked(framework)

    assert found["pydantic"] == version("pydantic")
    assert not found.keys() & {"boto3", "botocore", "cryptography"}
