import pytest
from enginery_runtime.errors import ConfigurationError
from enginery_runtime.settings import load_settings
from enginery_store.reasons import Reason
from pydantic import ValidationError


def test_defaults_serve_the_known_ports() -> None:
    settings = load_settings({})
    assert (settings.rest_port, settings.grpc_port, settings.metrics_port) == (8000, 8001, 8002)
    assert settings.drain_delay_seconds < settings.grace_seconds < 90


def test_variables_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINERY_RUNTIME_REST_PORT", "9000")
    assert load_settings({"ENGINERY_RUNTIME_REST_PORT": "9000"}).rest_port == 9000


def test_unknown_variable_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="ENGINERY_RUNTIME_REST_PROT") as refused:
        load_settings({"ENGINERY_RUNTIME_REST_PROT": "9000", "OTHER": "x"})
    assert refused.value.reason is Reason.CONFIG_ERROR


@pytest.mark.parametrize(
    ("name", "value"),
    [("ENGINERY_RUNTIME_REST_PORT", "0"), ("ENGINERY_RUNTIME_REST_PORT", "x"), ("ENGINERY_LOG_LEVEL", "loud")],
)
def test_wrong_value_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigurationError, match=name):
        load_settings({name: value})


def test_settings_are_frozen() -> None:
    with pytest.raises(ValidationError):
        load_settings({}).rest_port = 1  # type: ignore[misc]
