"""One version for each digest, in a real MLflow server, whatever is retried, raced or broken off."""

from __future__ import annotations

import threading
import traceback
import uuid
from dataclasses import replace
from typing import Any
from urllib.parse import unquote

import pytest

from lockstep.errors import InvalidSpec, LockstepError, NotPermitted, RegistrationRefused, RegistryUnavailable
from lockstep.model_registry import Champion, ModelRegistry, Registration, check_alias, check_model_name
from tests.http_server import answering

PASSWORD = "s%20cret"


@pytest.fixture
def registry(mlflow_server: str) -> ModelRegistry:
    return ModelRegistry(mlflow_server)


def registration(**changes: Any) -> Registration:
    asked = Registration(
        name=f"model {uuid.uuid4().hex}",
        digest="sha256:aa",
        source="gs://b-1/runs/dag/run/model",
        experiment="dag",
        lineage={"lockstep.dag_id": "dag", "lockstep.run_id": "manual__1"},
        params={"epochs": 5, "learning_rate": 0.001},
        metrics={"eval_accuracy": 0.97},
        step=420,
    )
    return replace(asked, **changes)


def versions(registry: ModelRegistry, name: str) -> list[Any]:
    return list(registry._client.search_model_versions(f"name = '{name}'"))


def test_a_model_is_registered_with_its_lineage(registry: ModelRegistry) -> None:
    """Version, tags, run, params, metrics and alias: what somebody needs to trace a model back."""
    asked = registration()
    made = registry.register(asked)
    assert (made.version, made.alias, made.source) == (1, "champion", asked.source)
    stored = registry._client.get_model_version_by_alias(asked.name, "champion")
    assert stored.tags == {**asked.lineage, "lockstep.digest": "sha256:aa", "lockstep.model": asked.name}
    run = registry._client.get_run(stored.run_id)
    assert (run.info.status, run.data.params, run.data.metrics) == (
        "FINISHED",
        {"epochs": "5", "learning_rate": "0.001"},
        {"eval_accuracy": 0.97},
    )
    assert run.data.tags.items() >= asked.tags.items()


def test_registering_again_changes_nothing(registry: ModelRegistry) -> None:
    """A retried or cleared task finds the version that exists."""
    asked = registration()
    assert registry.register(asked) == registry.register(asked)
    assert len(versions(registry, asked.name)) == 1


def test_another_digest_is_the_next_version_and_takes_the_alias(registry: ModelRegistry) -> None:
    """The newest validated model is the champion."""
    asked = registration()
    registry.register(asked)
    made = registry.register(replace(asked, digest="sha256:bb", metrics={"eval_accuracy": 0.98}))
    assert (made.version, made.alias) == (2, "champion")
    assert registry.champion(asked.name) == Champion(version=2, metrics={"eval_accuracy": 0.98})


def test_repeating_an_old_run_does_not_bring_its_model_back(registry: ModelRegistry) -> None:
    """The alias stays with the later version."""
    asked = registration()
    registry.register(asked)
    registry.register(replace(asked, digest="sha256:bb"))
    repeated = registry.register(asked)
    assert (repeated.version, repeated.alias) == (1, None)
    champion = registry.champion(asked.name)
    assert champion is not None
    assert champion.version == 2


def test_without_an_alias_nobody_is_promoted(registry: ModelRegistry) -> None:
    """Somebody may want to decide by hand."""
    asked = registration(alias=None)
    assert registry.register(asked).alias is None
    assert registry.champion(asked.name) is None


def test_the_same_bytes_under_another_name_are_another_model(registry: ModelRegistry) -> None:
    """One digest is one version within one model, not in the whole registry."""
    first, second = registration(), registration()
    assert registry.register(first).version == registry.register(second).version == 1


class Racing(ModelRegistry):
    """A registry whose callers all look before any of them creates."""

    def __init__(self, tracking_uri: str, all_have_looked: threading.Barrier) -> None:
        super().__init__(tracking_uri)
        self._all_have_looked: threading.Barrier | None = all_have_looked

    def _find(self, registration: Registration) -> Any:
        found = super()._find(registration)
        if self._all_have_looked is not None:
            self._all_have_looked.wait(timeout=60)
            self._all_have_looked = None
        return found


def test_of_many_registrations_at_once_one_version_stays(mlflow_server: str, registry: ModelRegistry) -> None:
    """Each caller saw no version, each created one, and all but the first took theirs back."""
    asked = registration()
    all_have_looked = threading.Barrier(4)
    outcomes: list[Any] = []

    def register() -> None:
        outcomes.append(Racing(mlflow_server, all_have_looked).register(asked))

    threads = [threading.Thread(target=register) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    left = versions(registry, asked.name)
    assert len(outcomes) == 4
    assert [int(stored.version) for stored in left] == [outcomes[0].version]
    assert {(made.version, made.run_id) for made in outcomes} == {(int(left[0].version), left[0].run_id)}
    assert len(registry._client.search_runs([_experiment(registry)], f"tags.`lockstep.model` = '{asked.name}'")) == 1


def _experiment(registry: ModelRegistry) -> str:
    return str(registry._client.get_experiment_by_name("dag").experiment_id)


class BreaksOff(ModelRegistry):
    """A registry whose caller dies before the last step."""

    def _promote(self, stored: Any, alias: str | None) -> str | None:
        raise KeyboardInterrupt


def test_a_try_that_was_broken_off_before_the_alias_is_completed(mlflow_server: str, registry: ModelRegistry) -> None:
    """The alias moves last, and the next try moves it."""
    asked = registration()
    with pytest.raises(KeyboardInterrupt):
        BreaksOff(mlflow_server).register(asked)
    assert registry.champion(asked.name) is None
    assert (registry.register(asked).version, len(versions(registry, asked.name))) == (1, 1)
    assert registry.champion(asked.name) is not None


def test_the_password_stays_out_of_links_and_output(
    mlflow_server: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """What goes into a link, an XCom or the task's log can be shown to anybody."""
    caplog.set_level(0)
    registry = ModelRegistry(mlflow_server.replace("://", f"://me:{PASSWORD}@"))
    made = registry.register(registration(name="Ziffern 1"))
    assert made.page == f"{mlflow_server}/#/models/Ziffern%201/versions/{made.version}"
    shown = "".join(capfd.readouterr()) + caplog.text
    assert PASSWORD not in shown
    assert unquote(PASSWORD) not in shown


@pytest.mark.parametrize("name", ["", " ", "a/b", "a:b", "it's", 'a"b', "../x", "a`b"])
def test_a_name_that_mlflow_cannot_hold_or_find_is_refused_at_once(name: str) -> None:
    """Before training, not after it."""
    with pytest.raises(InvalidSpec, match="model name"):
        check_model_name(name)


@pytest.mark.parametrize("alias", ["", "latest", "v1", "V12", "two words", "a/b"])
def test_an_alias_that_mlflow_refuses_is_refused_at_once(alias: str) -> None:
    """Otherwise the version would be registered, and the last step would fail."""
    with pytest.raises(InvalidSpec, match="alias"):
        check_alias(alias)


def test_what_mlflow_refuses_is_not_tried_again(registry: ModelRegistry) -> None:
    """A metric name that MLflow does not allow will not be allowed later."""
    with pytest.raises(RegistrationRefused, match=r"a\(b\).*correct the request"):
        registry.register(registration(metrics={"a(b)": 1.0}))


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (401, NotPermitted),
        (403, NotPermitted),
        (404, RegistrationRefused),
        (429, RegistryUnavailable),
        (503, RegistryUnavailable),
    ],
)
def test_a_refusal_is_explained_without_the_password(
    status: int, kind: type[LockstepError], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the message nor any part of the traceback holds it."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with answering(status) as host, pytest.raises(kind) as refused:
        ModelRegistry(f"http://me:{PASSWORD}@{host}").ping()
    assert host in str(refused.value)
    _assert_no_password(refused.value)


def test_a_registry_that_is_down_is_a_retryable_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounded, and without the password too."""
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_MAX_RETRIES", "0")
    with pytest.raises(RegistryUnavailable, match="try again") as refused:
        ModelRegistry(f"http://me:{PASSWORD}@127.0.0.1:9").ping()
    _assert_no_password(refused.value)


def _assert_no_password(error: BaseException) -> None:
    shown = "".join(traceback.format_exception(error))
    assert PASSWORD not in shown
    assert unquote(PASSWORD) not in shown
