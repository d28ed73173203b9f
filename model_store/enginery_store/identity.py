"""Identity of requests, prepared models and engines: which builds are the same build.

Called by the operator (which engine does this model need?), the builder (under which key do I publish?) and the
runtime (is this the engine I was sent for?). Everything here is pure. A key is the sha256, in lower-case hex, of the
canonical JSON of everything that determines the artifact, and of nothing else: names, labels, tenant, replicas and
the order of YAML keys are never part of it.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

KEY_SCHEME = 1
"""Part of every key. Raised when the meaning of a key's fields changes, so that old artifacts are never mistaken."""


@dataclass(frozen=True)
class ListedObject:
    """One object of a listing: `name` is its path relative to the source, `etag` as the store returns it."""

    name: str
    size_bytes: int
    etag: str


def canonical_json(value: Any) -> bytes:
    """UTF-8 JSON that is equal for equal values: sorted keys, no white space, no floats.

    Raises TypeError for a float (its text depends on the writer: use a decimal string) or a key that is no string.
    """
    _refuse_ambiguous(value)
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()


def _refuse_ambiguous(value: Any) -> None:
    if isinstance(value, float):
        raise TypeError(f"{value!r} is a float; write a decimal string")
    if isinstance(value, Mapping):
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"key {key!r} is not a string")
            _refuse_ambiguous(item)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_ambiguous(item)


def digest_of(value: Any) -> str:
    """Sha256 of the value's canonical JSON, lower-case hex, 64 characters."""
    return hashlib.sha256(canonical_json(value)).hexdigest()


def fingerprint(objects: Iterable[ListedObject]) -> str:
    """`sha256:<hex>` over names, sizes and ETags of a source's listing, in whichever order the store listed them.

    Cheap (no object is read) and enough to notice that a source was replaced; the content digest is the builder's.
    """
    rows = sorted([item.name, item.size_bytes, item.etag.strip('"')] for item in objects)
    return f"sha256:{digest_of(rows)}"


def content_digest(files: Mapping[str, str]) -> str:
    """`sha256:<hex>` of a source: of the file itself when it is one, else over all relative names and their sha256.

    `files` maps relative names to sha256 hex. A single file keeps the digest that `sha256sum` prints, so that users
    can pin it in spec.source.digest; external data files are files like any other and so are covered.
    """
    if len(files) == 1:
        return f"sha256:{next(iter(files.values()))}"
    return f"sha256:{digest_of(sorted(files.items()))}"


def prepared_key(
    *,
    source_digest: str,
    source_format: str,
    precision: Mapping[str, Any],
    task: str = "",
    converters: Mapping[str, str] | None = None,
) -> str:
    """Key of a prepared model: the same content, converted and quantized the same way, is prepared once.

    `converters` are versions of what made it ONNX, by name; a source that is ONNX has none, and the key then neither.
    """
    parts: dict[str, Any] = {
        "scheme": KEY_SCHEME,
        "kind": "prepared",
        "source": source_digest,
        "format": source_format,
        "task": task,
        "precision": dict(precision),
    }
    if converters:
        parts["converters"] = dict(converters)
    return digest_of(parts)


def request_key(
    *, source: Mapping[str, Any], precision: Mapping[str, Any], profiles: list[Mapping[str, Any]], prefix: str
) -> str:
    """Key of a prepare request: its outcome is stored once, and found again after the Job is gone.

    `source` holds uri, format, task, digest pin and fingerprint; `profiles` belong to it because the prepare Job
    checks them against the model's inputs. The tenant's prefix is part, as outcomes never cross tenants.
    """
    return digest_of(
        {
            "scheme": KEY_SCHEME,
            "kind": "request",
            "prefix": prefix,
            "source": dict(source),
            "precision": dict(precision),
            "profiles": [dict(profile) for profile in profiles],
        }
    )


def engine_key(
    *,
    prepared: str,
    backend: str,
    backend_version: str,
    target: Mapping[str, Any],
    profiles: list[Mapping[str, Any]],
    options: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None = None,
) -> str:
    """Key of an engine: prepared model, backend and its exact version, target, profiles and builder options.

    `evaluation` names the data and metric its accuracy is measured with (absent without a gate): accuracy is a fact
    of an engine on some data, so models that ask about other data do not share the record. The tolerated degradation
    is not part: the operator compares it with the recorded figure, and a new tolerance needs no new build.
    """
    return digest_of(
        {
            "scheme": KEY_SCHEME,
            "kind": "engine",
            "prepared": prepared,
            "backend": backend,
            "backendVersion": backend_version,
            "target": dict(target),
            "profiles": [dict(profile) for profile in profiles],
            "options": dict(options),
            "evaluation": dict(evaluation) if evaluation else None,
        }
    )
