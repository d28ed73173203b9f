"""Settings: a typo fails at start with its name, and what the chart writes is what the operator reads."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from enginery_operator import settings
from enginery_operator.decide.jobs import BACKOFF_LIMIT_SECONDS
from enginery_operator.settings import Settings
from pydantic import ValidationError

ROOT = Path(__file__).parents[3]
SMALL = {"images": {"builder": "b:1", "runtime": "r:1"}}


def load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: object) -> Settings:
    file = tmp_path / "config.yaml"
    file.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
    monkeypatch.setenv("ENGINERY_CONFIG", str(file))
    return settings.load()


def test_the_smallest_file_is_two_images(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("POD_NAMESPACE", "somewhere")
    found = load(tmp_path, monkeypatch, SMALL)
    assert (found.namespace, found.workers, found.tenancy.required) == ("somewhere", 8, True)


TYPOS: dict[str, tuple[dict[str, Any], str]] = {
    "an unknown key": ({"resyncSecond": 5}, "resyncSecond"),
    "an unknown key inside": ({"jobs": {"ttlSecond": 5}}, "jobs.ttlSecond"),
    "an unknown key of the store": ({"store": {"endpont": "x"}}, "store.endpont"),
    "a key of another kind": ({"workers": "many"}, "workers"),
    "too many workers": ({"workers": 65}, "workers"),
    "a resync that would be a storm": ({"resyncSeconds": 1}, "resyncSeconds"),
    "Jobs that go before their pause is over: a storm": ({"jobs": {"ttlSeconds": 0}}, "jobs.ttlSeconds"),
    "a level nobody has": ({"logLevel": "LOUD"}, "logLevel"),
    "an image too few": ({"images": {"builder": "b:1"}}, "images.runtime"),
}


@pytest.mark.parametrize("sentence", TYPOS)
def test_a_wrong_file_ends_the_start_with_the_keys_name(
    sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    change, want = TYPOS[sentence]
    with pytest.raises(ValidationError) as caught:
        load(tmp_path, monkeypatch, SMALL | change)
    assert want in {".".join(map(str, item["loc"])) for item in caught.value.errors()}


def test_a_missing_file_ends_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINERY_CONFIG", "/nowhere/config.yaml")
    with pytest.raises(FileNotFoundError):
        settings.load()


def test_settings_do_not_change_after_the_start() -> None:
    found = Settings.model_validate(SMALL)
    with pytest.raises(ValidationError):
        found.workers = 3  # type: ignore[misc]


def chart_schema() -> dict[str, Any]:
    document: dict[str, Any] = json.loads((ROOT / "helm/enginery/values.schema.json").read_text())
    config: dict[str, Any] = document["properties"]["config"]["properties"]
    return config


NOT_IN_CONFIG = {"namespace", "watchNamespaces", "images", "store", "storeCredentialsFolder", "tenancy", "httpPort"}
"""What the chart writes from its own values, or fixes."""


def test_every_setting_can_be_given_in_the_charts_config() -> None:
    own = {field.alias or name for name, field in Settings.model_fields.items()}
    assert set(chart_schema()) == own - NOT_IN_CONFIG


@pytest.mark.parametrize("section", ["jobs", "lease"])
def test_every_setting_of_a_section_can_be_given(section: str) -> None:
    kind: Any = Settings.model_fields[section].annotation
    own = {field.alias for field in kind.model_fields.values()}
    assert set(chart_schema()[section]["properties"]) == own


def test_serving_namespaces_without_a_tenant_needs_a_place_for_their_engines() -> None:
    with pytest.raises(ValidationError, match="defaultPrefix"):
        Settings.model_validate(SMALL | {"tenancy": {"required": False}})
    Settings.model_validate(SMALL | {"tenancy": {"required": False, "defaultPrefix": "s3://enginery/untenanted/"}})


def test_a_failed_job_outlives_every_pause() -> None:
    """Its removal would begin the count of attempts anew."""
    jobs = Settings.model_validate(SMALL).jobs
    assert jobs.ttl_seconds > max(BACKOFF_LIMIT_SECONDS, jobs.recheck_seconds, jobs.start_deadline_seconds)


def test_a_lease_is_renewed_well_before_it_expires() -> None:
    lease = Settings.model_validate(SMALL).lease
    assert lease.retry_seconds < lease.renew_deadline_seconds < lease.duration_seconds
    with pytest.raises(ValidationError, match="renewDeadlineSeconds"):
        Settings.model_validate(SMALL | {"lease": {"renewDeadlineSeconds": 15, "durationSeconds": 15}})
    with pytest.raises(ValidationError, match="retrySeconds"):
        Settings.model_validate(SMALL | {"lease": {"retrySeconds": 10}})
