"""An object that holds what we want is not written again; one that does not is."""

import copy
from typing import Any

import pytest
from enginery_operator.drift import holds

WANTED: dict[str, Any] = {
    "metadata": {"labels": {"enginery.io/model": "m"}},
    "spec": {
        "replicas": 1,
        "priorityClassName": "",
        "affinity": {},
        "template": {
            "spec": {
                "containers": [
                    {
                        "name": "runtime",
                        "image": "r:1",
                        "env": [{"name": "A", "value": "1"}],
                        "resources": {"requests": {"cpu": "1000m", "memory": "1Gi"}, "limits": {"memory": "1024Mi"}},
                    }
                ],
                "volumes": [{"name": "work", "emptyDir": {"sizeLimit": "20Gi"}}, {"name": "tmp", "emptyDir": {}}],
            }
        },
    },
}


def there(**changes: Any) -> dict[str, Any]:
    """The object as the API server returns it: defaults filled in, quantities rewritten, empty strings dropped."""
    actual = copy.deepcopy(WANTED)
    spec = actual["spec"]
    del spec["priorityClassName"], spec["affinity"]
    spec |= {"revisionHistoryLimit": 10}
    container = spec["template"]["spec"]["containers"][0]
    container |= {"terminationMessagePath": "/dev/termination-log"}
    container["resources"] = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}
    actual["metadata"]["labels"]["added-by"] = "somebody"
    for path, value in changes.items():
        *folders, last = path.split("__")
        here: Any = actual
        for name in folders:
            here = here[int(name) if name.isdigit() else name]
        here[last] = value
    return actual


CASES: dict[str, tuple[dict[str, Any], bool]] = {
    "defaults, rewritten quantities and others' labels are no drift": (there(), True),
    "a missing field is": (there(spec__replicas=None), False),
    "another number is": (there(spec__replicas=2), False),
    "another label value is": (there(metadata__labels={"enginery.io/model": "n"}), False),
    "another quantity is": (
        there(spec__template__spec__containers__0__resources={
            "requests": {"cpu": "999m", "memory": "1Gi"}, "limits": {"memory": "1Gi"}}), False),
    "a named item that others added is not, as an apply would leave it": (
        there(spec__template__spec__containers__0__env=[{"name": "A", "value": "1"}, {"name": "B"}]), True),
    "an item less in a list is": (there(spec__template__spec__containers__0__env=[]), False),
    "another order of named items is not": (
        there(spec__template__spec__volumes=[
            {"name": "tmp", "emptyDir": {}}, {"name": "work", "emptyDir": {"sizeLimit": "20Gi"}}]), True),
    "another size of a folder is": (
        there(spec__template__spec__volumes=[
            {"name": "work", "emptyDir": {"sizeLimit": "21Gi"}}, {"name": "tmp", "emptyDir": {}}]), False),
    "another kind of volume is": (
        there(spec__template__spec__volumes=[
            {"name": "work", "hostPath": {"path": "/"}}, {"name": "tmp", "emptyDir": {}}]), False),
    "text where an object belongs is": (there(spec__template="x"), False),
    "a priority class where we want none is": (there(spec__priorityClassName="high"), False),
}  # fmt: skip


@pytest.mark.parametrize("sentence", CASES)
def test_drift_is_what_differs_in_meaning(sentence: str) -> None:
    actual, want = CASES[sentence]
    assert holds(actual, WANTED) is want


EQUAL = [
    ("1000m", "1"), ("0.5", "500m"), ("1Ki", "1024"), ("1Gi", "1024Mi"), ("1Ti", "1024Gi"), ("1k", "1000"),
    ("1M", "1000k"), ("1G", "1000M"), ("1T", "1000G"), ("2", "2.0"),
]  # fmt: skip


@pytest.mark.parametrize(("one", "two"), EQUAL)
def test_quantities_are_compared_as_numbers(one: str, two: str) -> None:
    assert holds({"requests": {"cpu": one}}, {"requests": {"cpu": two}})
    assert holds({"requests": {"cpu": two}}, {"requests": {"cpu": one}})
    assert not holds({"labels": {"cpu": one}}, {"labels": {"cpu": two}})


@pytest.mark.parametrize(("one", "two"), [("1", "1m"), ("1G", "1Gi"), ("1", "2"), ("x", "1"), ("1", "1x")])
def test_different_quantities_differ(one: str, two: str) -> None:
    assert not holds({"limits": {"memory": one}}, {"limits": {"memory": two}})
