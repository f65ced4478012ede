"""A job that cannot be had is the request's fault; what its own code raises is the user's."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from trainer.errors import InvalidRequest
from trainer.job import load_job


@pytest.mark.parametrize(
    ("path", "params", "complaint"),
    [
        pytest.param("no.such.module:Job", {}, "no module named 'no'", id="no such module"),
        pytest.param("trainer.nothing:Job", {}, "no module named 'trainer.nothing'", id="no such submodule"),
        pytest.param("trainer.job:Nothing", {}, "nothing callable named 'Nothing'", id="no such attribute"),
        pytest.param("tests.trainer.jobs:TinyJob", {"nosy": 1}, "job_params do not fit .*noisy", id="a misspelt param"),
        pytest.param("trainer.pulse:Pulse", {}, "lacks the methods", id="no job at all"),
    ],
)
def test_a_job_that_cannot_be_had_is_refused(path: str, params: Mapping[str, Any], complaint: str) -> None:
    with pytest.raises(InvalidRequest, match=complaint):
        load_job(path, params)


def test_a_job_gets_its_parameters() -> None:
    job = load_job("tests.trainer.jobs:TinyJob", {"noisy": True})
    assert len(job.model().layers) > len(load_job("tests.trainer.jobs:TinyJob", {}).model().layers)


def test_what_a_jobs_module_lacks_itself_is_not_blamed_on_the_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "needy_job.py").write_text("import a_package_that_is_not_here\n")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ModuleNotFoundError, match="a_package_that_is_not_here"):
        load_job("needy_job:Job", {})
    assert "needy_job" not in sys.modules
