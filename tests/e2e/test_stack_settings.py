"""Whole runs use the one-machine stack and nothing of the installation that other tests stand for."""

from __future__ import annotations

import os

import pytest

from lockstep.deployment import deployment
from lockstep.local.airflow_service import RUN_ROOT, TRAINER_IMAGE
from lockstep.pytest_plugin import LoadDag, RunDag


@pytest.fixture
def lockstep_deployment() -> dict[str, str]:
    return {"image": "registry.example/trainer:7", "run_root": "gs://models/runs", "service_account": "trainer"}


@pytest.fixture(autouse=True)
def _a_setting_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW__LOCKSTEP__RENDEZVOUS", "service")
    monkeypatch.delenv("STORAGE_EMULATOR_HOST", raising=False)


def test_with_the_stack_its_own_settings_are_in_force(lockstep_dag: LoadDag, run_dag: RunDag) -> None:
    site = deployment()
    assert (site.image, site.run_root) == (TRAINER_IMAGE, RUN_ROOT)
    assert (site.service_account, site.rendezvous) == (None, "loopback")


def test_without_it_they_are_those_of_the_deployment(lockstep_dag: LoadDag) -> None:
    site = deployment()
    assert (site.image, site.service_account, site.rendezvous) == ("registry.example/trainer:7", "trainer", "service")
    assert "STORAGE_EMULATOR_HOST" not in os.environ
