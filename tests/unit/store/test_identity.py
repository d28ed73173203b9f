"""Which builds are the same build: keys change with everything that determines an artifact, and with nothing else."""

import json
import random
from typing import Any

import pytest
from enginery_store.identity import (
    ListedObject,
    canonical_json,
    content_digest,
    digest_of,
    engine_key,
    fingerprint,
    prepared_key,
    request_key,
)

RANGE = {"name": "x", "min": [1, 4], "opt": [8, 4], "max": [32, 4]}
ENGINE: dict[str, Any] = {
    "prepared": "a" * 64,
    "backend": "ONNXRuntime",
    "backend_version": "1.32.0",
    "target": {"accelerator": "CPU", "architecture": "amd64"},
    "profiles": [{"name": "default", "inputs": [RANGE]}],
    "options": {"optimizationLevel": 3, "workspaceMib": None, "hardwareCompatibility": "None"},
    "evaluation": {"uri": "s3://b/e", "metric": "Top1", "samples": 100},
}
PREPARED: dict[str, Any] = {
    "source_digest": "sha256:aa",
    "source_format": "ONNX",
    "precision": {"type": "FP32"},
    "task": "",
}
REQUEST: dict[str, Any] = {
    "source": {"uri": "s3://b/m", "format": "ONNX", "task": "", "digest": "", "fingerprint": "sha256:bb"},
    "precision": {"type": "FP32"},
    "profiles": [{"name": "default", "inputs": [RANGE]}],
    "prefix": "s3://b/tenants/a/",
}


def leaves(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything that is not a container."""
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in leaves(item, (*path, key))]
    if isinstance(value, list):
        return [leaf for index, item in enumerate(value) for leaf in leaves(item, (*path, index))]
    return [path]


def changed(value: Any, path: tuple[Any, ...]) -> Any:
    """A copy that differs in one leaf."""
    copy = json.loads(json.dumps(value))
    place = copy
    for step in path[:-1]:
        place = place[step]
    old = place[path[-1]]
    place[path[-1]] = old + 1 if isinstance(old, int) else f"{old}x"
    return copy


def shuffled(value: Any, source: random.Random) -> Any:
    """The same value with its keys in another order."""
    if isinstance(value, dict):
        keys = list(value)
        source.shuffle(keys)
        return {key: shuffled(value[key], source) for key in keys}
    return [shuffled(item, source) for item in value] if isinstance(value, list) else value


KEYS = {"engine": (engine_key, ENGINE), "prepared": (prepared_key, PREPARED), "request": (request_key, REQUEST)}


@pytest.mark.parametrize("name", KEYS)
def test_every_single_field_changes_the_key(name: str) -> None:
    function, fields = KEYS[name]
    paths = leaves(fields)

    keys = {function(**fields), *(function(**changed(fields, path)) for path in paths)}

    assert len(keys) == len(paths) + 1


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("seed", range(20))
def test_order_of_keys_changes_nothing(name: str, seed: int) -> None:
    function, fields = KEYS[name]

    source = random.Random(seed)  # noqa: S311 - repeatable, not secret

    assert function(**shuffled(fields, source)) == function(**fields)


def test_absent_evaluation_differs_from_any() -> None:
    assert engine_key(**{**ENGINE, "evaluation": None}) != engine_key(**ENGINE)


def test_keys_of_different_kinds_never_meet() -> None:
    assert len({function(**fields) for function, fields in KEYS.values()}) == 3


def test_keys_are_pinned_forever() -> None:
    """A changed value here means that every stored artifact is built again: raise KEY_SCHEME on purpose only."""
    assert digest_of({"b": [1, "ä"], "a": None}) == digest_of(json.loads('{ "a": null, "b": [1, "\\u00e4"] }'))
    assert prepared_key(**PREPARED) == "222f35b0ef6b231345642b528d9e175603fb1a0eddfa55293e38679e704caaab"
    assert prepared_key(**PREPARED, converters={}) == prepared_key(**PREPARED)
    assert prepared_key(**PREPARED, converters={"torch": "2.15.0"}) != prepared_key(**PREPARED)
    assert engine_key(**ENGINE) == "3c65e480992eb9fb9d38a857d74eb7e4272ff41ce64c2e72d2d88c0fc488ccee"


def random_value(source: random.Random, depth: int = 3) -> Any:
    kind = source.randrange(7 if depth else 4)
    if kind == 0:
        return source.randrange(-(1 << 70), 1 << 70)
    if kind == 1:
        return "".join(chr(source.choice([34, 92, 10, 228, 0x65E5, 0x1F600, 65])) for _ in range(source.randrange(5)))
    if kind in {2, 3}:
        return source.choice([None, True, False])
    if kind == 4:
        return [random_value(source, depth - 1) for _ in range(source.randrange(4))]
    return {str(source.randrange(99)): random_value(source, depth - 1) for _ in range(source.randrange(4))}


@pytest.mark.parametrize("seed", range(200))
def test_canonical_json_reads_back_and_is_one_text_per_value(seed: int) -> None:
    source = random.Random(seed)  # noqa: S311 - repeatable, not secret
    value = random_value(source)

    text = canonical_json(value)

    assert json.loads(text) == value
    assert canonical_json(shuffled(json.loads(text), source)) == text
    assert b"\n" not in text


@pytest.mark.parametrize("value", [1.0, {"a": [float("nan")]}, {1: "x"}, {"a": {2: 3}}])
def test_what_has_two_texts_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        canonical_json(value)


OBJECTS = [ListedObject("a", 1, '"e1"'), ListedObject("b/c", 2, '"e2"')]


def test_fingerprint_ignores_order_and_quotes_and_nothing_else() -> None:
    base = fingerprint(OBJECTS)

    assert fingerprint(reversed(OBJECTS)) == base
    assert fingerprint([ListedObject("a", 1, "e1"), ListedObject("b/c", 2, "e2")]) == base
    others = [("x", 1, "e1"), ("a", 9, "e1"), ("a", 1, "e9")]
    assert base not in {fingerprint([ListedObject(*other), OBJECTS[1]]) for other in others}
    assert fingerprint(OBJECTS[:1]) != base


def test_digest_of_one_file_is_what_sha256sum_prints() -> None:
    assert content_digest({"model.onnx": "ab" * 32}) == f"sha256:{'ab' * 32}"


def test_digest_of_many_files_covers_names_and_contents() -> None:
    base = content_digest({"a": "1", "b": "2"})

    assert content_digest({"b": "2", "a": "1"}) == base
    assert content_digest({"a": "2", "b": "1"}) != base
    assert content_digest({"a": "1", "c": "2"}) != base
